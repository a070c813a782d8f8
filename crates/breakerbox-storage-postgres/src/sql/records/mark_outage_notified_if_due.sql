UPDATE outages SET due_at = NULL, news = NULL WHERE subject = $1 AND epoch = $2 AND due_at IS NOT NULL
