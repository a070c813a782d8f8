-- Deliveries of a fan-out that ended before they were written, because their endpoint was deleted.
-- $1: when; $2 to $9: id, event, tenant, lane, priority, due time, expiry and size of each.
INSERT INTO finished (id, event, tenant, lane, state, priority, attempts, requests, due_at, failed_probe, pulled, expires_at,
    size, finished_at)
SELECT n.id, n.event, n.tenant, n.lane, 4, n.priority, 0, 0, n.due_at, 0, false, n.expires_at, n.size, $1
FROM unnest($2, $3, $4, $5, $6, $7, $8, $9) AS n (id, event, tenant, lane, priority, due_at, expires_at, size)
