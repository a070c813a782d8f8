-- Writes the row $1 of leases, which is no office and expires by itself, to see whether it can be written. Each process has a
-- row of its own, so that none waits for another. Answers with the time.
--
-- The other tables get no row, but the server checks the rights to them all the same.
WITH may_swap AS (
    INSERT INTO breakerbox.circuits AS c (key) SELECT $1::bytea WHERE false
    ON CONFLICT (key) DO UPDATE SET expires_at = c.expires_at
),
may_merge AS (
    INSERT INTO breakerbox.counts AS k (key, epoch) SELECT $1::bytea, 0 WHERE false
    ON CONFLICT (key, epoch) DO UPDATE SET expires_at = k.expires_at
),
may_ramp AS (
    INSERT INTO breakerbox.ramps AS r (key) SELECT $1::bytea WHERE false
    ON CONFLICT (key) DO UPDATE SET expires_at = r.expires_at
),
may_drop AS (
    DELETE FROM breakerbox.counts AS k WHERE false
)
INSERT INTO breakerbox.leases AS l (name, holder, ends_at)
VALUES ($1::bytea, ''::bytea, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $2::bigint)
ON CONFLICT (name) DO UPDATE SET ends_at = excluded.ends_at
RETURNING (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now;
