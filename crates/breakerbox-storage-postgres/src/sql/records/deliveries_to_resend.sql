-- What is needed to resend the deliveries with the ids $1.
SELECT d.id, d.tenant, t.id AS name, d.lane, d.state::bigint AS state, d.reason::bigint AS reason, d.attempts::bigint AS attempts,
    e.expires_at, e.not_before, e.url, d.size, e.reminder,
    EXISTS (SELECT FROM closed_lanes c WHERE c.lane = d.lane) AS is_closed
FROM all_deliveries d JOIN events e ON e.id = d.event JOIN tenants t ON t.row = d.tenant WHERE d.id = ANY ($1)
