-- Runs that were sent so late that they serve a later occurrence, if their lease is current. What was skipped counts.
-- $1, $2: delivery and lease; $3: the time of the occurrence; $4: the occurrences that it skips.
WITH late AS MATERIALIZED (
    SELECT d.id, d.event, d.reminder, s.at, s.skipped
    FROM unnest($1, $2, $3, $4) AS s (id, lease, at, skipped) JOIN deliveries d ON d.id = s.id AND d.lease = s.lease
    WHERE d.state = 1 AND d.reminder IS NOT NULL
    ORDER BY d.id
    FOR UPDATE OF d
), told AS (
    UPDATE events e SET scheduled_at = l.at, skipped = e.skipped + l.skipped FROM late l WHERE e.id = l.event
)
UPDATE reminders r SET last_at = l.at, ran_at = l.at, skipped = r.skipped + l.skipped, turn = r.turn + 1
FROM late l WHERE r.id = l.reminder AND r.open_run = l.id
