-- Cleanup: examines the next $2 ramps, starting at the key $1, and deletes those that have expired. Ramps that
-- are in use are skipped. Returns the last key that was examined; no row if there was none.
WITH looked_at AS MATERIALIZED (
    SELECT r.key FROM breakerbox.ramps AS r WHERE r.key >= $1::bytea ORDER BY r.key LIMIT $2::bigint
),
expired AS MATERIALIZED (
    SELECT r.ctid
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now OFFSET 0) AS clock
    CROSS JOIN breakerbox.ramps AS r
    WHERE r.key = ANY (ARRAY(SELECT l.key FROM looked_at AS l)) AND r.expires_at <= clock.now
    FOR UPDATE OF r SKIP LOCKED
),
cleared AS (
    DELETE FROM breakerbox.ramps AS r WHERE r.ctid = ANY (ARRAY(SELECT e.ctid FROM expired AS e))
)
SELECT l.key FROM looked_at AS l ORDER BY l.key DESC LIMIT 1;
