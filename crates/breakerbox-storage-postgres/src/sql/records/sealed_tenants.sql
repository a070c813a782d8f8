-- Sealed values of tenants after the number $1, at most $2.
SELECT row, id, sealed FROM tenants WHERE row > $1 AND deleted_at IS NULL ORDER BY row LIMIT $2
