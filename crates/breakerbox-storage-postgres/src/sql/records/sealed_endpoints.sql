-- Sealed values of endpoints after the id $1, at most $2.
SELECT id, NULL::text, sealed FROM endpoints WHERE id > $1 ORDER BY id LIMIT $2
