SELECT row FROM tenants WHERE id = $1 AND deleted_at IS NULL
