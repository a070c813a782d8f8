-- Fan-outs whose deliveries are not all written. $1 to $5: the columns.
INSERT INTO fan_outs (tenant, event, audience, position, due_at) SELECT * FROM unnest($1, $2, $3, $4, $5)
