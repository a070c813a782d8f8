UPDATE jobs SET finished_at = $2, cancelled = true WHERE id = $1 AND kind = 'resend' AND finished_at IS NULL
