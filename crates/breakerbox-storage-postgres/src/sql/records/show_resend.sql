SELECT id, position, wanted, by, done, skipped, created_at, finished_at, cancelled, tenant FROM jobs WHERE id = $1 AND kind = 'resend'
