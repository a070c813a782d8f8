-- Lanes in which something waits, in the order of their ids. Each takes one seek in the index, however much waits in it.
-- $1: the lane to begin after; $2: how many.
WITH RECURSIVE next AS (
    (SELECT d.lane, d.tenant FROM deliveries d WHERE d.state = 0 AND d.lane > $1 ORDER BY d.lane LIMIT 1)
    UNION ALL
    SELECT d.lane, d.tenant FROM next n CROSS JOIN LATERAL (
        SELECT w.lane, w.tenant FROM deliveries w WHERE w.state = 0 AND w.lane > n.lane ORDER BY w.lane LIMIT 1
    ) d
)
SELECT n.lane, (SELECT t.id FROM tenants t WHERE t.row = n.tenant), (SELECT l.key FROM lanes l WHERE l.id = n.lane),
    (SELECT d.due_at FROM deliveries d WHERE d.state = 0 AND d.lane = n.lane AND d.priority = 0 ORDER BY d.due_at LIMIT 1),
    (SELECT d.due_at FROM deliveries d WHERE d.state = 0 AND d.lane = n.lane AND d.priority = 1 ORDER BY d.due_at LIMIT 1),
    (SELECT d.due_at FROM deliveries d WHERE d.state = 0 AND d.lane = n.lane AND d.priority = 2 ORDER BY d.due_at LIMIT 1),
    (SELECT d.due_at FROM deliveries d WHERE d.state = 0 AND d.lane = n.lane AND d.priority = 3 ORDER BY d.due_at LIMIT 1)
FROM next n
WHERE NOT EXISTS (SELECT FROM closed_lanes x WHERE x.lane = n.lane)
LIMIT $2
