-- Changes of the circuit $4 from $1 until $2, below the epoch $3, at most $5.
SELECT key, epoch, at, change, owner FROM circuit_changes
WHERE key = $4 AND epoch < $3 AND at >= $1 AND at < $2 ORDER BY epoch DESC LIMIT $5
