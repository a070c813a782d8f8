-- The unfinished fan-outs of the tenant $1, at most $2.
SELECT audience, position FROM fan_outs WHERE tenant = $1 ORDER BY event LIMIT $2
