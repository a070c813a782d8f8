-- The deliveries with the ids $1, each with its latest attempt. `closed_at` is set if the delivery waits in a closed lane, and so
-- counts as cancelled.
SELECT d.id, t.id AS tenant, d.tenant AS owner, d.event, e.kind, d.lane, e.url, d.priority::bigint AS priority,
    d.state::bigint AS state, d.reason::bigint AS reason, d.attempts::bigint AS attempts, d.due_at, d.expires_at, d.finished_at,
    e.reminder, e.run, CASE WHEN d.state = 0 THEN c.closed_at END AS closed_at,
    a.started_at, a.status::bigint AS status, a.fault, a.detail
FROM all_deliveries d
    JOIN events e ON e.id = d.event
    JOIN tenants t ON t.row = d.tenant
    LEFT JOIN closed_lanes c ON c.lane = d.lane
    LEFT JOIN attempts a ON a.delivery = d.id AND a.number = d.requests
WHERE d.id = ANY ($1)
