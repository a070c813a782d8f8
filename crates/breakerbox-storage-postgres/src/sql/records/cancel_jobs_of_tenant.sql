-- Cancels the unfinished jobs of the tenant $1 at the time $2.
UPDATE jobs SET finished_at = $2, cancelled = true WHERE tenant = $1 AND finished_at IS NULL
