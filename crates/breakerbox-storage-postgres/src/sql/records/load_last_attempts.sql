-- The latest attempts of lanes after the lane $1, at most $2. `key` is the circuit's if the lane is for dynamic URLs, unless its
-- tenant was deleted.
SELECT a.lane, a.started_at, a.status::bigint AS status, a.fault, a.detail, l.key
FROM last_attempts a LEFT JOIN (lanes l JOIN tenants t ON t.row = l.tenant AND t.deleted_at IS NULL) ON l.id = a.lane
WHERE a.lane > $1 ORDER BY a.lane LIMIT $2
