-- For each lane, when the earliest waiting delivery of each priority is due. Closed lanes have none. $1: the lanes.
SELECT l.lane,
    (SELECT d.due_at FROM deliveries d WHERE d.state = 0 AND d.lane = l.lane AND d.priority = 0 ORDER BY d.due_at LIMIT 1),
    (SELECT d.due_at FROM deliveries d WHERE d.state = 0 AND d.lane = l.lane AND d.priority = 1 ORDER BY d.due_at LIMIT 1),
    (SELECT d.due_at FROM deliveries d WHERE d.state = 0 AND d.lane = l.lane AND d.priority = 2 ORDER BY d.due_at LIMIT 1),
    (SELECT d.due_at FROM deliveries d WHERE d.state = 0 AND d.lane = l.lane AND d.priority = 3 ORDER BY d.due_at LIMIT 1)
FROM unnest($1) AS l (lane)
WHERE NOT EXISTS (SELECT FROM closed_lanes x WHERE x.lane = l.lane)
