-- New deliveries. Those with a duration are leased by this process. Returns their leases.
-- $1: the time, NULL: the server's; $2: the process; $3 to $12: id, event, tenant, lane, priority, due time, expiry, size,
-- reminder and duration of the lease of each.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
), new AS (
    INSERT INTO deliveries (id, event, tenant, lane, state, priority, attempts, requests, due_at, failed_probe, pulled, expires_at,
        size, reminder, lease, lease_until, worker)
    SELECT n.id, n.event, n.tenant, n.lane, CASE WHEN n.duration IS NULL THEN 0 ELSE 1 END, n.priority, 0, 0, n.due_at, 0, false,
        n.expires_at, n.size, n.reminder, CASE WHEN n.duration IS NOT NULL THEN nextval('leases') END,
        (SELECT now FROM clock) + n.duration, CASE WHEN n.duration IS NOT NULL THEN $2 END
    FROM unnest($3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
        AS n (id, event, tenant, lane, priority, due_at, expires_at, size, reminder, duration)
    RETURNING id, lease
)
SELECT id, lease FROM new WHERE lease IS NOT NULL
