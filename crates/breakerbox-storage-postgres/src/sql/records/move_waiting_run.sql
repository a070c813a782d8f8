UPDATE deliveries SET lane = $2, priority = $3, size = $4 WHERE id = $1 AND state = 0
