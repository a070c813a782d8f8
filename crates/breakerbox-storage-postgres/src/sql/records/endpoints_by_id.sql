-- The endpoints with the ids $1.
SELECT e.id, t.id AS tenant, e.settings, e.sealed, e.disabled, e.revision, e.created_at, e.changed_at
FROM endpoints e JOIN tenants t ON t.row = e.tenant WHERE e.id = ANY ($1) ORDER BY e.id
