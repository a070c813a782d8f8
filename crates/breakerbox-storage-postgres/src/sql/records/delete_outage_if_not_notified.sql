DELETE FROM outages WHERE subject = $1 AND due_at IS NOT NULL
