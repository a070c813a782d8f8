-- New events. $1 to $15: the columns.
INSERT INTO events (id, tenant, kind, content_type, priority, fan_out, size, not_before, expires_at, url,
    reminder, run, scheduled_at, skipped, latest)
SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
