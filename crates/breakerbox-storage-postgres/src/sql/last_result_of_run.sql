-- The URL of a reminder, and the result of the last attempt of its open run. $1: the reminder.
SELECT r.settings::json ->> 'url', a.started_at, a.status, a.fault, a.detail
FROM reminders r LEFT JOIN attempts a ON a.delivery = r.open_run
WHERE r.id = $1 ORDER BY a.number DESC LIMIT 1
