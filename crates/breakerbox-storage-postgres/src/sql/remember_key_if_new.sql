-- Stores the idempotency keys of batches, unless they are in use. If another process is storing the same key, waits for it.
-- $1 to $5: row id, tenant, key, fingerprint and events of each; $6: keys with a lower id are forgotten.
INSERT INTO idempotency_keys AS k (id, tenant, key, fingerprint, events)
SELECT * FROM unnest($1, $2, $3, $4, $5) AS n (id, tenant, key, fingerprint, events) ORDER BY n.tenant, n.key
ON CONFLICT (tenant, key) DO UPDATE
SET id = excluded.id, fingerprint = excluded.fingerprint, events = excluded.events, created = NULL, status = NULL,
    revision = NULL, response = NULL
WHERE k.id < $6
