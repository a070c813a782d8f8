-- The runs of the reminder $1 below the event $2, the newest first, at most $3. A run's delivery has the id after its event's.
SELECT e.id, e.run, e.scheduled_at, e.skipped,
    (SELECT a.started_at FROM attempts a WHERE a.delivery = e.id + 1 AND a.number = 1) AS sent_at
FROM events e WHERE e.reminder = $1 AND e.id < $2 ORDER BY e.id DESC LIMIT $3
