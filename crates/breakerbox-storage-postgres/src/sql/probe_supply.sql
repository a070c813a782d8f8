-- Whether a delivery of a lane may probe now, and when the next delivery of each priority becomes due. No row: the lane is closed.
-- $1: the time, NULL: the server's; $2: the lane.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
), due AS (
    SELECT p.priority, EXISTS (
        SELECT FROM deliveries d
        WHERE d.state = 0 AND d.lane = $2 AND d.priority = p.priority::smallint AND d.due_at <= (SELECT now FROM clock)
            AND (d.expires_at IS NULL OR d.expires_at > (SELECT now FROM clock))
    ) AS any_due, (
        SELECT d.due_at FROM deliveries d
        WHERE d.state = 0 AND d.lane = $2 AND d.priority = p.priority::smallint AND d.due_at > (SELECT now FROM clock)
        ORDER BY d.due_at LIMIT 1
    ) AS next_due
    FROM generate_series(0, 3) AS p (priority)
)
SELECT bool_or(any_due) OR EXISTS (
        SELECT FROM deliveries d
        WHERE d.state = 0 AND d.attempts > 0 AND NOT d.pulled AND d.lane = $2 AND d.due_at > (SELECT now FROM clock)
            AND (d.expires_at IS NULL OR d.expires_at > (SELECT now FROM clock))
    ),
    max(next_due) FILTER (WHERE priority = 0), max(next_due) FILTER (WHERE priority = 1),
    max(next_due) FILTER (WHERE priority = 2), max(next_due) FILTER (WHERE priority = 3)
FROM due
HAVING NOT EXISTS (SELECT FROM closed_lanes x WHERE x.lane = $2)
