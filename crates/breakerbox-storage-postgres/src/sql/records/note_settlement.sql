UPDATE settled_permits SET settled = $3 WHERE expires_at = $1 AND id = $2
