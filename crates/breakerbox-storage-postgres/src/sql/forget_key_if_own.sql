-- Deletes idempotency keys of batches that were not accepted. $1, $2, $3: tenant, key and row id of each.
DELETE FROM idempotency_keys k USING unnest($1, $2, $3) AS n (tenant, key, id)
WHERE k.tenant = n.tenant AND k.key = n.key AND k.id = n.id
