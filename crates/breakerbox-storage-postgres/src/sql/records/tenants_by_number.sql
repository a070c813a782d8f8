-- The tenants with the numbers $1, including deleted ones.
SELECT t.row, t.id, t.settings, t.sealed, t.revision, t.created_at, t.changed_at, t.deleted_at
FROM tenants t WHERE t.row = ANY ($1) ORDER BY t.row
