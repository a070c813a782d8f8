-- Stores the idempotency key $3 of the tenant $2, with its fingerprint $4 and the response, unless it is in use. $1: the row's
-- id; $9: keys with a lower id are forgotten.
INSERT INTO idempotency_keys AS k (id, tenant, key, fingerprint, created, status, revision, response)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (tenant, key) DO UPDATE
SET id = excluded.id, fingerprint = excluded.fingerprint, events = DEFAULT, created = excluded.created, status = excluded.status,
    revision = excluded.revision, response = excluded.response
WHERE k.id < $9
