SELECT id, position, wanted, by, done, skipped, created_at, finished_at, cancelled, tenant FROM jobs
WHERE tenant = $3 AND id < $1 AND kind = 'resend' ORDER BY id DESC LIMIT $2
