-- The stored idempotency keys of a list. $1, $2: tenant and key of each.
SELECT n.nth, k.id, k.fingerprint, k.events
FROM unnest($1, $2) WITH ORDINALITY AS n (tenant, key, nth)
    JOIN idempotency_keys k ON k.tenant = n.tenant AND k.key = n.key
