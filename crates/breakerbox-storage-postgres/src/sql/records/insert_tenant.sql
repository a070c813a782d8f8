INSERT INTO tenants (id, settings, sealed, revision, created_at, changed_at) VALUES ($1, $2, $3, $4, $5, $5) RETURNING row
