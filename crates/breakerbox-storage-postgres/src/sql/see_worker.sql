-- Notes that a process is there, forgets those that were not seen for long and hold nothing, and returns the server's time.
-- $1: the process; $2: the time, NULL: the server's; $3: how long the others are kept.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS server
), seen AS (
    UPDATE workers SET seen_at = coalesce($2, (SELECT server FROM clock)) WHERE number = $1
), gone AS (
    DELETE FROM workers w WHERE w.number <> $1 AND w.seen_at < coalesce($2, (SELECT server FROM clock)) - $3
        AND NOT EXISTS (SELECT FROM deliveries d WHERE d.state = 1 AND d.worker = w.number)
)
SELECT server FROM clock
