-- Cleanup: examines the next $2 elections, starting at the name $1, and deletes those whose term has ended.
-- Returns the last name that was examined, as a key; no row if there was none.
WITH looked_at AS MATERIALIZED (
    SELECT l.name FROM breakerbox.leases AS l WHERE l.name >= $1::bytea ORDER BY l.name LIMIT $2::bigint
),
ended AS MATERIALIZED (
    SELECT l.ctid
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now OFFSET 0) AS clock
    CROSS JOIN breakerbox.leases AS l
    WHERE l.name = ANY (ARRAY(SELECT s.name FROM looked_at AS s)) AND l.ends_at <= clock.now
    FOR UPDATE OF l SKIP LOCKED
),
cleared AS (
    DELETE FROM breakerbox.leases AS l WHERE l.ctid = ANY (ARRAY(SELECT e.ctid FROM ended AS e))
)
SELECT s.name AS key FROM looked_at AS s ORDER BY s.name DESC LIMIT 1;
