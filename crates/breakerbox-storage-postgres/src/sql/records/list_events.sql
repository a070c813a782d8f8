-- Submitted events whose ids are from $1 until $2, of the tenant $3 and the type $4, each unless NULL: the newest $6 among the
-- first $5.
SELECT e.id, t.id AS tenant, e.kind, e.content_type, e.size, e.priority::bigint AS priority, e.url, e.fan_out::bigint AS fan_out
FROM (SELECT * FROM events WHERE id >= $1 AND id < $2 ORDER BY id DESC LIMIT $5) e JOIN tenants t ON t.row = e.tenant
WHERE e.reminder IS NULL AND ($3::bigint IS NULL OR e.tenant = $3) AND ($4::text IS NULL OR e.kind = $4)
ORDER BY e.id DESC LIMIT $6
