INSERT INTO jobs (id, tenant, kind, wanted, by, done, skipped, created_at) VALUES ($1, $2, 'resend', $3, $4, 0, 0, $5)
