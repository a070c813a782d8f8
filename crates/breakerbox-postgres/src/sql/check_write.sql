-- Writes the row $1 in leases, which does not belong to an election and expires, to check that writes are
-- accepted. Each process has its own row, so that none waits for another. Returns the time.
--
-- No rows are written to the other tables, but the server checks the permissions for them nevertheless.
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
