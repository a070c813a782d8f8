INSERT INTO endpoints (id, tenant, settings, sealed, disabled, revision, created_at, changed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $7)
