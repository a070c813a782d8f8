-- Reminders that have to be checked, the longest due first. $1: by then; $2: how many.
SELECT r.id, t.id, r.turn, r.state, r.settings, r.runs, r.last_at, r.asked, r.open_run,
    coalesce(d.state, f.state), f.reason, coalesce(d.attempts, f.attempts),
    (SELECT a.started_at FROM attempts a WHERE a.delivery = r.open_run AND a.number = 1)
FROM reminders r
    LEFT JOIN tenants t ON t.row = r.tenant
    LEFT JOIN deliveries d ON d.id = r.open_run
    LEFT JOIN finished f ON f.id = r.open_run
WHERE r.look_at IS NOT NULL AND r.look_at <= $1 ORDER BY r.look_at, r.id LIMIT $2
