DELETE FROM circuit_changes WHERE (key, epoch) IN (
    SELECT key, epoch FROM circuit_changes WHERE at < $1 ORDER BY at LIMIT $2
)
