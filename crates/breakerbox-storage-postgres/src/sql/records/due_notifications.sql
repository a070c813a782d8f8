-- The notifications that are due at the target $1 at the time $2, the longest due first, at most $3.
SELECT n.id, n.kind, n.subject, t.id AS tenant, n.at, s.tries::bigint AS tries
FROM notification_sends s JOIN notifications n ON n.id = s.notification LEFT JOIN tenants t ON t.row = n.tenant
WHERE s.state = 0 AND s.target = $1 AND s.due_at <= $2 ORDER BY s.due_at, s.notification LIMIT $3
