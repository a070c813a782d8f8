UPDATE tenants SET settings = $2, sealed = $3, revision = $4, changed_at = $5 WHERE row = $1 AND deleted_at IS NULL
