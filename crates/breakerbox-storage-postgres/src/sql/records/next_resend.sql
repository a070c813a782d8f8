-- The next unfinished resend job after the id $1.
SELECT id, position, wanted, by, done, skipped, created_at, finished_at, cancelled, tenant FROM jobs
WHERE finished_at IS NULL AND kind = 'resend' AND id > $1 ORDER BY id LIMIT 1
