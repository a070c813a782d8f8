-- Adds the notification $1 to those that wait for the target $2 of the tenant $3, due at $4. If $5 are waiting, it is only
-- counted.
WITH counted AS (
    INSERT INTO notification_targets AS t (name, tenant, waiting, not_kept) VALUES ($2, $3, 1, 0)
    ON CONFLICT (name) DO UPDATE SET
        waiting = t.waiting + (t.waiting < $5)::int,
        not_kept = t.not_kept + (t.waiting >= $5)::int
), is_full AS (
    SELECT coalesce((SELECT waiting >= $5 FROM notification_targets WHERE name = $2), false) AS is_full
)
INSERT INTO notification_sends (notification, target, state, tries, due_at)
SELECT $1, $2, 0, 0, $4 FROM is_full WHERE NOT is_full
