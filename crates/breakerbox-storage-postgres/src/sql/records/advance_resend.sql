UPDATE jobs SET position = $2, done = done + $3, skipped = skipped + $4, finished_at = $5 WHERE id = $1
