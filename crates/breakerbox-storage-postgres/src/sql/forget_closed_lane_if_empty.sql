-- Forgets a closed lane in which nothing waits or is in flight. A process that has not heard of the deletion yet may still add
-- to it, so it is kept for a while.
-- $1: the lane; $2: it was closed before this time.
WITH gone AS (
    DELETE FROM closed_lanes x
    WHERE x.lane = $1 AND x.closed_at < $2
        AND NOT EXISTS (SELECT FROM deliveries d WHERE d.lane = x.lane AND d.state = 0)
        AND coalesce((SELECT sum(b.count) FROM backlogs b WHERE b.lane = x.lane), 0) <= 0
    RETURNING x.lane
)
DELETE FROM last_attempts a USING gone g WHERE a.lane = g.lane
