-- Tenants after the number $1, at most $2.
SELECT t.row, t.id, t.settings, t.sealed, t.revision, t.created_at, t.changed_at, t.deleted_at
FROM tenants t WHERE t.row > $1 AND t.deleted_at IS NULL ORDER BY t.row LIMIT $2
