-- Locks the reminder $1 if $2 is its unfinished run. NULL: it has none.
SELECT 1 FROM reminders r WHERE r.id = $1
    AND (SELECT d.id FROM deliveries d WHERE d.id = r.open_run) IS NOT DISTINCT FROM $2
FOR UPDATE
