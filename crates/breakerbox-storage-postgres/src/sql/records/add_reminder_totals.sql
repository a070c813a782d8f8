-- Adds $2 reminders with $3 bytes to the counts of the tenant $1.
INSERT INTO reminder_totals AS t (tenant, count, bytes) VALUES ($1, greatest($2, 0), greatest($3, 0))
ON CONFLICT (tenant) DO UPDATE SET count = greatest(t.count + $2, 0), bytes = greatest(t.bytes + $3, 0)
