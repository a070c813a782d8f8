-- API keys after the id $1, at most $2.
SELECT k.id, k.hash, k.name, k.scopes, t.id AS tenant, k.created_at, k.expires_at, k.revoked_at
FROM api_keys k LEFT JOIN tenants t ON t.row = k.tenant WHERE k.id > $1 ORDER BY k.id LIMIT $2
