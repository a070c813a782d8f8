-- Cleanup: examines the next $2 windows, starting at the key $1, and deletes those that have expired. A window
-- lives at least as long as the record with its epoch. Windows that are being merged into are skipped. Returns
-- the last key that was examined; no row if there was none.
WITH looked_at AS MATERIALIZED (
    SELECT k.key FROM breakerbox.counts AS k WHERE k.key >= $1::bytea ORDER BY k.key LIMIT $2::bigint
),
expired AS MATERIALIZED (
    SELECT k.ctid
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now OFFSET 0) AS clock
    CROSS JOIN breakerbox.counts AS k
    WHERE k.key = ANY (ARRAY(SELECT l.key FROM looked_at AS l)) AND k.expires_at <= clock.now
        AND coalesce(
            (SELECT c.expires_at FROM breakerbox.circuits AS c WHERE c.key = k.key AND c.epoch = k.epoch) <= clock.now, true
        )
    FOR UPDATE OF k SKIP LOCKED
),
cleared AS (
    DELETE FROM breakerbox.counts AS k WHERE k.ctid = ANY (ARRAY(SELECT e.ctid FROM expired AS e))
)
SELECT l.key FROM looked_at AS l ORDER BY l.key DESC LIMIT 1;
