DELETE FROM settled_permits WHERE (expires_at, id) IN (
    SELECT expires_at, id FROM settled_permits WHERE expires_at < $1 ORDER BY expires_at LIMIT $2
)
