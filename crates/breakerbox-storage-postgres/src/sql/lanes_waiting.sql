-- The lanes of a list in which something waits and that are not closed. $1: the lanes; $2: the tenant of each.
SELECT n.lane, (SELECT t.id FROM tenants t WHERE t.row = n.tenant), (SELECT l.key FROM lanes l WHERE l.id = n.lane),
    (SELECT d.due_at FROM deliveries d WHERE d.state = 0 AND d.lane = n.lane AND d.priority = 0 ORDER BY d.due_at LIMIT 1),
    (SELECT d.due_at FROM deliveries d WHERE d.state = 0 AND d.lane = n.lane AND d.priority = 1 ORDER BY d.due_at LIMIT 1),
    (SELECT d.due_at FROM deliveries d WHERE d.state = 0 AND d.lane = n.lane AND d.priority = 2 ORDER BY d.due_at LIMIT 1),
    (SELECT d.due_at FROM deliveries d WHERE d.state = 0 AND d.lane = n.lane AND d.priority = 3 ORDER BY d.due_at LIMIT 1)
FROM unnest($1, $2) AS n (lane, tenant)
WHERE NOT EXISTS (SELECT FROM closed_lanes x WHERE x.lane = n.lane)
ORDER BY n.lane
