INSERT INTO outages (subject, epoch, at, due_at, news) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (subject) DO NOTHING
