SELECT event, lane, size FROM deliveries WHERE id = $1 AND state = 0
