-- Undoes the firing of the run $2, the latest of the reminder $1. Its number is used again unless it was sent.
WITH run AS MATERIALIZED (
    SELECT d.requests, e.skipped FROM all_deliveries d JOIN events e ON e.id = d.event WHERE d.id = $2
)
UPDATE reminders r SET open_run = NULL, runs = r.runs - 1, last_at = r.before_at, turn = r.turn + 1,
    numbered = r.numbered - coalesce((SELECT (run.requests = 0)::int FROM run), 0),
    skipped = r.skipped - coalesce((SELECT run.skipped FROM run), 0),
    ran_at = (
        SELECT e.scheduled_at FROM events e WHERE e.reminder = r.id AND e.run < r.numbered ORDER BY e.id DESC LIMIT 1
    )
WHERE r.id = $1
