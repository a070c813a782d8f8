SELECT key, epoch, at, change, owner FROM circuit_changes WHERE key = $1 AND epoch < $2 ORDER BY epoch DESC LIMIT $3
