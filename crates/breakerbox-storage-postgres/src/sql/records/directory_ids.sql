-- The numbers of all tenants (kind 0), endpoints (1) and API keys (2).
SELECT 0::bigint AS kind, row AS id FROM tenants WHERE deleted_at IS NULL
UNION ALL SELECT 1, id FROM endpoints
UNION ALL SELECT 2, id FROM api_keys
