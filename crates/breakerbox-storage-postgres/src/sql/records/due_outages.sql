-- The outages whose trip is due at the time $1, the longest due first, at most $2.
SELECT subject, epoch, at, news FROM outages WHERE due_at IS NOT NULL AND due_at <= $1 ORDER BY due_at LIMIT $2
