-- A page of circuits with the status $4, in key order: from $1 (inclusive) to $2 (exclusive), at most $3.
SELECT c.key, c.record
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now OFFSET 0) AS clock
CROSS JOIN breakerbox.circuits AS c
WHERE c.status = $4::text AND c.version IS NOT NULL AND c.key >= $1::bytea AND c.key < $2::bytea AND c.record IS NOT NULL AND (
    c.expires_at > clock.now
    OR (SELECT k.expires_at FROM breakerbox.counts AS k WHERE k.key = c.key AND k.epoch = c.epoch) > clock.now
)
ORDER BY c.key
LIMIT $3::bigint;
