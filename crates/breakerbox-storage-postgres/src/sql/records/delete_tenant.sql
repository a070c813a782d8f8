-- Marks the tenant $1 as deleted at the time $2, and forgets its secrets. The row stays while finished work names it.
UPDATE tenants SET deleted_at = $2, sealed = '' WHERE row = $1 AND deleted_at IS NULL
