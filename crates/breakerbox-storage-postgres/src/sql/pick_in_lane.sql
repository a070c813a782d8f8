-- Waiting deliveries of a lane that nobody else is taking. $1: the lane; $2: how many.
SELECT d.id FROM deliveries d WHERE d.state = 0 AND d.lane = $1 ORDER BY d.priority, d.due_at LIMIT $2 FOR UPDATE SKIP LOCKED
