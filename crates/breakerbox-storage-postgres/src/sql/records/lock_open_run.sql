-- Locks the unfinished run of the reminder $1, and returns it.
SELECT d.id FROM reminders r JOIN deliveries d ON d.id = r.open_run WHERE r.id = $1 FOR UPDATE OF d
