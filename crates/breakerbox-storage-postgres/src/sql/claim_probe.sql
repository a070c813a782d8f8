-- Leases the delivery of a lane with the lowest rank for a probe, unless somebody else is taking it. One that has expired is
-- returned without a lease.
-- $1: the time, NULL: the server's; $2: the lane; $3: the outage; $4: the duration of the lease; $5: the process.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
), candidate AS MATERIALIZED (
    SELECT c.id FROM (
        SELECT d.id, 0 AS choice, p.priority, d.due_at
        FROM generate_series(0, 3) AS p (priority) CROSS JOIN LATERAL (
            SELECT w.id, w.due_at FROM deliveries w
            WHERE w.state = 0 AND w.lane = $2 AND w.priority = p.priority::smallint AND w.due_at <= (SELECT now FROM clock)
                AND w.failed_probe <> $3
            ORDER BY w.due_at, w.id LIMIT 1
        ) d
        UNION ALL (
            SELECT w.id, 1, 0, w.due_at FROM deliveries w
            WHERE w.state = 0 AND w.attempts > 0 AND NOT w.pulled AND w.lane = $2 AND w.due_at > (SELECT now FROM clock)
                AND w.failed_probe <> $3
            ORDER BY w.due_at, w.id LIMIT 1
        )
        UNION ALL
        SELECT d.id, 2, p.priority, d.due_at
        FROM generate_series(0, 3) AS p (priority) CROSS JOIN LATERAL (
            SELECT w.id, w.due_at FROM deliveries w
            WHERE w.state = 0 AND w.lane = $2 AND w.priority = p.priority::smallint AND w.due_at <= (SELECT now FROM clock)
            ORDER BY w.due_at, w.id LIMIT 1
        ) d
        UNION ALL (
            SELECT w.id, 3, 0, w.due_at FROM deliveries w
            WHERE w.state = 0 AND w.attempts > 0 AND NOT w.pulled AND w.lane = $2 AND w.due_at > (SELECT now FROM clock)
            ORDER BY w.due_at, w.id LIMIT 1
        )
    ) c
    WHERE NOT EXISTS (SELECT FROM closed_lanes x WHERE x.lane = $2)
    ORDER BY c.choice, c.priority, c.due_at, c.id LIMIT 1
), picked AS MATERIALIZED (
    SELECT d.id, d.expires_at <= (SELECT now FROM clock) IS TRUE AS is_expired,
        CASE WHEN d.due_at > (SELECT now FROM clock) THEN d.due_at END AS pulled_from
    FROM deliveries d JOIN candidate c ON c.id = d.id WHERE d.state = 0 FOR UPDATE OF d SKIP LOCKED
), taken AS (
    UPDATE deliveries d
    SET state = 1, lease = nextval('leases'), lease_until = (SELECT now FROM clock) + $4, worker = $5,
        pulled = d.pulled OR p.pulled_from IS NOT NULL
    FROM picked p WHERE d.id = p.id AND NOT p.is_expired
    RETURNING d.*
)
SELECT 1::bigint AS nth, p.id, p.is_expired, t.lease, t.event, t.lane, t.priority, t.attempts, t.requests, t.expires_at,
    n.id AS tenant, e.kind, e.content_type, e.url, b.payload, e.reminder, e.run, e.scheduled_at, r.settings, p.pulled_from
FROM picked p
    LEFT JOIN taken t ON t.id = p.id
    LEFT JOIN tenants n ON n.row = t.tenant
    LEFT JOIN events e ON e.id = t.event
    LEFT JOIN payloads b ON b.event = t.event
    LEFT JOIN reminders r ON r.id = e.reminder AND e.latest
