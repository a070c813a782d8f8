-- Deletes notifications older than the id $1 that no longer wait for any target, at most $2. Returns how many.
WITH old AS MATERIALIZED (
    SELECT n.id FROM notifications n WHERE n.id < $1
        AND NOT EXISTS (SELECT FROM notification_sends s WHERE s.notification = n.id AND s.state = 0)
    ORDER BY n.id LIMIT $2
), sends AS (
    DELETE FROM notification_sends WHERE notification IN (SELECT id FROM old)
)
DELETE FROM notifications WHERE id IN (SELECT id FROM old)
