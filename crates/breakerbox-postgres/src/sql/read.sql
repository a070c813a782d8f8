-- The records of the circuits with the keys $1, in that order; one row with only the time if there are no keys.
SELECT clock.now, wanted.ordinal, circuit.record
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now OFFSET 0) AS clock
LEFT JOIN unnest($1::bytea[]) WITH ORDINALITY AS wanted (key, ordinal) ON true
LEFT JOIN LATERAL (
    SELECT c.record FROM breakerbox.circuits AS c
    WHERE c.key = wanted.key AND (
        c.expires_at > clock.now
        OR (SELECT k.expires_at FROM breakerbox.counts AS k WHERE k.key = c.key AND k.epoch = c.epoch) > clock.now
    )
    OFFSET 0
) AS circuit ON true
ORDER BY wanted.ordinal;
