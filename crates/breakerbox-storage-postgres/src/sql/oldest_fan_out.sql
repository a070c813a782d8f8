-- A tenant's oldest fan-out that nobody else is working on. $1: the tenant.
SELECT f.event, f.audience, f.position, f.due_at, e.priority, e.size, e.fan_out, e.expires_at
FROM fan_outs f LEFT JOIN events e ON e.id = f.event
WHERE f.tenant = $1 ORDER BY f.event LIMIT 1
FOR UPDATE OF f SKIP LOCKED
