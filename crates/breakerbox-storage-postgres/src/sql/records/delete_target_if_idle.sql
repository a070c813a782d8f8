-- A target without waiting notifications is deleted, and inserted again when one waits.
DELETE FROM notification_targets WHERE name = $1 AND waiting = 0 AND not_kept = 0
