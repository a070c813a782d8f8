-- Acquires or renews the term of the election $1 for the candidate $2, until $3 from now, unless another
-- candidate leads. Returns the time, the leader, and the end of its term. The time is read once the row is
-- locked.
INSERT INTO breakerbox.leases AS l (name, holder, ends_at)
VALUES ($1::bytea, $2::bytea, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $3::bigint)
ON CONFLICT (name) DO UPDATE SET (holder, ends_at) = (
    SELECT
        CASE WHEN free.yes THEN excluded.holder ELSE l.holder END,
        CASE WHEN free.yes THEN clock.now + $3::bigint ELSE l.ends_at END
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now OFFSET 0) AS clock
    CROSS JOIN LATERAL (SELECT l.holder = excluded.holder OR l.ends_at <= clock.now AS yes) AS free
)
RETURNING (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now, l.holder, l.ends_at;
