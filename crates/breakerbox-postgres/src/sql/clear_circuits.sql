-- Cleanup: examines the next $2 circuits, starting at the key $1, and deletes those that have expired. Circuits
-- that are being swapped are skipped. Returns the last key that was examined; no row if there was none.
WITH looked_at AS MATERIALIZED (
    SELECT c.key FROM breakerbox.circuits AS c WHERE c.key >= $1::bytea ORDER BY c.key LIMIT $2::bigint
),
expired AS MATERIALIZED (
    SELECT c.ctid
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now OFFSET 0) AS clock
    CROSS JOIN breakerbox.circuits AS c
    WHERE c.key = ANY (ARRAY(SELECT l.key FROM looked_at AS l)) AND c.expires_at <= clock.now AND (
        c.record IS NULL
        OR coalesce(
            (SELECT k.expires_at FROM breakerbox.counts AS k WHERE k.key = c.key AND k.epoch = c.epoch) <= clock.now, true
        )
    )
    FOR UPDATE OF c SKIP LOCKED
),
cleared AS (
    DELETE FROM breakerbox.circuits AS c WHERE c.ctid = ANY (ARRAY(SELECT e.ctid FROM expired AS e))
)
SELECT l.key FROM looked_at AS l ORDER BY l.key DESC LIMIT 1;
