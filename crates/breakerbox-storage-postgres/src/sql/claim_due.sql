-- Leases due deliveries that nobody else is taking, the longest due first. What has expired is returned without a lease.
-- $1: the time, NULL: the server's; $2, $3, $4, $5: lane, priority, maximum number and duration of the lease of each claim;
-- $6: the process. A lane and priority may occur only once.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
), claims AS (
    SELECT * FROM unnest($2, $3, $4, $5) WITH ORDINALITY AS c (lane, priority, wanted, duration, nth)
), picked AS MATERIALIZED (
    SELECT c.nth, c.duration, d.id, d.due_at, d.expires_at <= (SELECT now FROM clock) IS TRUE AS is_expired
    FROM claims c CROSS JOIN LATERAL (
        SELECT w.id, w.due_at, w.expires_at FROM deliveries w
        WHERE w.state = 0 AND w.lane = c.lane AND w.priority = c.priority AND w.due_at <= (SELECT now FROM clock)
            AND NOT EXISTS (SELECT FROM closed_lanes x WHERE x.lane = c.lane)
        ORDER BY w.due_at, w.id LIMIT c.wanted FOR UPDATE OF w SKIP LOCKED
    ) d
), taken AS (
    UPDATE deliveries d
    SET state = 1, lease = nextval('leases'), lease_until = (SELECT now FROM clock) + p.duration, worker = $6
    FROM picked p WHERE d.id = p.id AND NOT p.is_expired
    RETURNING d.*
)
SELECT p.nth, p.id, p.is_expired, t.lease, t.event, t.lane, t.priority, t.attempts, t.requests, t.expires_at, n.id AS tenant,
    e.kind, e.content_type, e.url, b.payload, e.reminder, e.run, e.scheduled_at, r.settings, NULL::bigint AS pulled_from
FROM picked p
    LEFT JOIN taken t ON t.id = p.id
    LEFT JOIN tenants n ON n.row = t.tenant
    LEFT JOIN events e ON e.id = t.event
    LEFT JOIN payloads b ON b.event = t.event
    LEFT JOIN reminders r ON r.id = e.reminder AND e.latest
ORDER BY p.nth, p.due_at, p.id
