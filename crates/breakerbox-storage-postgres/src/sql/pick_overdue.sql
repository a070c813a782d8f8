-- Deliveries whose lease has ended and that nobody else is ending. $1: the time, NULL: the server's; $2: how many.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
)
SELECT d.id, d.lease FROM deliveries d
WHERE d.state = 1 AND d.lease_until <= (SELECT now FROM clock)
ORDER BY d.lease_until LIMIT $2
FOR UPDATE OF d SKIP LOCKED
