-- Locks the reminders whose runs are about to wait again, so that none is paused or cancelled meanwhile. $1: the deliveries.
SELECT FROM reminders r
WHERE r.id IN (SELECT d.reminder FROM deliveries d WHERE d.id = ANY ($1) AND d.reminder IS NOT NULL)
ORDER BY r.id
FOR NO KEY UPDATE
