-- The API keys with the ids $1.
SELECT k.id, k.hash, k.name, k.scopes, t.id AS tenant, k.created_at, k.expires_at, k.revoked_at
FROM api_keys k LEFT JOIN tenants t ON t.row = k.tenant WHERE k.id = ANY ($1) ORDER BY k.id
