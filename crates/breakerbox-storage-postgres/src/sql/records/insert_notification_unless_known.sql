INSERT INTO notifications (id, kind, subject, epoch, tenant, at, news) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (subject, kind, epoch) DO NOTHING
