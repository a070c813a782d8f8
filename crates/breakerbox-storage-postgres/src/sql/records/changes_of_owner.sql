-- Changes from $1 until $2 of the tenant $7, before the position ($3, $4, $5), at most $6.
SELECT key, epoch, at, change, owner FROM circuit_changes
WHERE owner = $7 AND at >= $1 AND at < $2 AND (at, key, epoch) < ($3, $4, $5)
ORDER BY at DESC, key DESC, epoch DESC LIMIT $6
