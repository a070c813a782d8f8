DELETE FROM outages WHERE subject = $1 AND epoch = $2 AND due_at IS NOT NULL
