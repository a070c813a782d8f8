-- Stores that people were notified of the outage of the circuit $1, which began with the epoch $2 at the time $3.
INSERT INTO outages (subject, epoch, at) VALUES ($1, $2, $3)
ON CONFLICT (subject) DO UPDATE SET due_at = NULL, news = NULL
