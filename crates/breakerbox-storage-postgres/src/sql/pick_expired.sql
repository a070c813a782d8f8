-- Waiting deliveries that have expired and that nobody else is taking. $1: the time, NULL: the server's; $2: how many.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
)
SELECT d.id FROM deliveries d
WHERE d.state = 0 AND d.expires_at IS NOT NULL AND d.expires_at <= (SELECT now FROM clock)
ORDER BY d.expires_at LIMIT $2
FOR UPDATE OF d SKIP LOCKED
