INSERT INTO api_keys (id, hash, name, scopes, tenant, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (hash) DO NOTHING
