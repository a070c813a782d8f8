-- The targets that have waiting notifications. Those that are due at the time $1 are counted up to $2.
SELECT w.name, t.id AS tenant, w.waiting, w.not_kept, (
        SELECT count(*) FROM (
            SELECT FROM notification_sends s WHERE s.state = 0 AND s.target = w.name AND s.due_at <= $1 LIMIT $2
        ) due
    ) AS due
FROM notification_targets w LEFT JOIN tenants t ON t.row = w.tenant WHERE w.waiting > 0
