UPDATE outages SET due_at = NULL, news = NULL WHERE subject = ANY ($1)
