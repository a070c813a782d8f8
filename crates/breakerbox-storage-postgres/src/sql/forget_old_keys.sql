-- Deletes idempotency keys that were kept long enough. $1: those with a lower id; $2: how many.
DELETE FROM idempotency_keys k USING (
    SELECT o.tenant, o.key FROM idempotency_keys o WHERE o.id < $1 ORDER BY o.id LIMIT $2 FOR UPDATE SKIP LOCKED
) old WHERE k.tenant = old.tenant AND k.key = old.key
