-- Clean-up: looks at the next $2 windows from the key $1 on, and deletes those that have expired. One lives at least as long
-- as the record of its epoch. Whatever is being added to is left alone. Answers with the last key that was looked at; no row
-- if there was none.
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
