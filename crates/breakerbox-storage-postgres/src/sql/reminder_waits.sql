-- A reminder that is checked later, or not before something happens. An unfinished run is still open: the check was too early.
-- $1: the reminder; $2: what is done with; $3: when it is checked.
UPDATE reminders SET turn = turn + 1, last_at = $2, look_at = $3, asked = 0,
    open_run = (SELECT d.id FROM deliveries d WHERE d.id = open_run)
WHERE id = $1
