-- The earlier request with the key $2 of the tenant $1, unless its id is below $3 and so it is forgotten.
SELECT fingerprint, created, status::bigint, revision, response FROM idempotency_keys WHERE tenant = $1 AND key = $2 AND id >= $3
