-- The payloads of new events. $1, $2: the columns.
INSERT INTO payloads (event, payload) SELECT * FROM unnest($1, $2)
