-- Makes the finished deliveries $1 wait again in the lanes $2, until they expire at $3, due at $4 and with no attempt used. $5:
-- their priority, NULL: as before. Returns those that were finished. The caller counts them.
WITH wanted AS (
    SELECT w.id, w.lane, w.expires_at FROM unnest($1, $2, $3) AS w (id, lane, expires_at)
), held AS MATERIALIZED (
    SELECT f.id FROM finished f WHERE f.id = ANY ($1) ORDER BY f.id FOR UPDATE
), gone AS (
    DELETE FROM finished f USING held h WHERE f.id = h.id
    RETURNING f.id, f.event, f.tenant, f.priority, f.requests, f.size, f.reminder
)
INSERT INTO deliveries (id, event, tenant, lane, state, priority, attempts, requests, due_at, failed_probe, pulled, expires_at,
    size, reminder)
SELECT g.id, g.event, g.tenant, w.lane, 0, coalesce($5, g.priority), 0, g.requests, $4, 0, false, w.expires_at,
    g.size, g.reminder
FROM gone g JOIN wanted w ON w.id = g.id
RETURNING id, lane, priority::bigint
