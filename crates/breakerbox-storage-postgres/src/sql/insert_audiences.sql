-- The endpoints of large fan-outs. $1, $2: the columns.
INSERT INTO audiences (id, endpoints) SELECT * FROM unnest($1, $2)
