-- Adds counts for many circuits at once. Returns a row for each delta, in the same order.
--
-- For each delta: $1 its key (each at most once), $2 its epoch, $3 the width of a bucket, $4 the time to live
-- of the counts, $5 and $6 the range of its buckets among all buckets, $7 the age of its latest success, $8 the
-- number of failures after it, $9 and $10 the ages of the first and the last of these (the run). For all
-- buckets: $11 age, $12 successes, $13 failures, $14 slow calls, $15 sum of latencies. $16 is how long a run is
-- kept after its last failure.
--
-- The columns first_outcome, run_began and run are from earlier versions, and stay empty or zero.
--
-- A delta is late unless its epoch is the record's at the start of this statement. A concurrent swap counts as
-- later: then these counts are in the window of a past epoch, which is never read again.
--
-- Rows are locked in key order, so that no two batches deadlock. Lookups are LATERAL with OFFSET 0, which makes
-- them use the primary key whatever the statistics are. The join at the end is FULL because such a join is
-- hashed or sorted, and never a nested loop.
WITH delta AS MATERIALIZED (
    SELECT
        d.ordinal, d.key, d.epoch, d.width, d.buckets_from, d.buckets_to, clock.now,
        greatest(clock.now / d.width - 9, 0) * d.width AS since,
        clock.now + d.keep_for AS expires_at,
        CASE WHEN d.success_age IS NOT NULL THEN greatest(clock.now - d.success_age, 0) END AS last_success,
        d.run_count,
        greatest(clock.now - d.first_age, 0) AS run_first,
        greatest(clock.now - d.last_age, 0) AS run_last
    FROM
        (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock,
        unnest(
            $1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::int[], $6::int[], $7::bigint[],
            $8::bigint[], $9::bigint[], $10::bigint[]
        )
            WITH ORDINALITY
            AS d (
                key, epoch, width, keep_for, buckets_from, buckets_to, success_age,
                run_count, first_age, last_age, ordinal
            )
),
known AS MATERIALIZED (
    SELECT
        d.*,
        CASE WHEN circuit.lives THEN circuit.record END AS record,
        CASE WHEN circuit.lives THEN circuit.epoch ELSE 0 END AS current_epoch,
        d.run_count > 0 AND d.run_first > coalesce(d.last_success, -1) AND d.now - d.run_last < $16::bigint AS has_run
    FROM delta AS d LEFT JOIN LATERAL (
        SELECT
            c.epoch, c.record,
            c.record IS NOT NULL AND (
                c.expires_at > d.now
                OR (SELECT k.expires_at FROM breakerbox.counts AS k WHERE k.key = c.key AND k.epoch = c.epoch) > d.now
            ) AS lives
        FROM breakerbox.circuits AS c
        WHERE c.key = d.key
        OFFSET 0
    ) AS circuit ON true
),
merged AS (
    INSERT INTO breakerbox.counts AS old (
        key, epoch, merged_at, since, keep_until, expires_at, last_success, run_count, run_first, run_last,
        begins, successes, failures, slow, latency_sum, run
    )
    SELECT
        d.key, d.epoch, d.now, d.since, d.expires_at,
        greatest(d.expires_at, CASE WHEN d.has_run THEN d.run_last + $16::bigint END),
        d.last_success,
        CASE WHEN d.has_run THEN d.run_count ELSE 0 END,
        CASE WHEN d.has_run THEN d.run_first END,
        CASE WHEN d.has_run THEN d.run_last END,
        ARRAY(
            SELECT greatest(d.now - age, 0) / d.width * d.width
            FROM unnest(($11::bigint[])[d.buckets_from:d.buckets_to]) AS age
        ),
        ($12::bigint[])[d.buckets_from:d.buckets_to],
        ($13::bigint[])[d.buckets_from:d.buckets_to],
        ($14::bigint[])[d.buckets_from:d.buckets_to],
        ($15::bigint[])[d.buckets_from:d.buckets_to],
        array_fill(0::bigint, ARRAY[d.buckets_to - d.buckets_from + 1])
    FROM known AS d
    WHERE d.epoch = d.current_epoch
    ORDER BY d.key
    ON CONFLICT (key, epoch) DO UPDATE SET (
        merged_at, since, keep_until, expires_at, last_success, run_count, run_first, run_last, run_began,
        begins, successes, failures, slow, latency_sum, run
    ) = (
        SELECT
            excluded.merged_at, excluded.since, expiry.keep_until, greatest(expiry.keep_until, run.last + $16::bigint),
            success.latest, run.count, run.first, run.last, NULL::bigint,
            coalesce(bucket.begins, '{}'), coalesce(bucket.successes, '{}'), coalesce(bucket.failures, '{}'),
            coalesce(bucket.slow, '{}'), coalesce(bucket.latency_sum, '{}'),
            array_fill(0::bigint, ARRAY[coalesce(cardinality(bucket.begins), 0)])
        FROM (
            SELECT old.last_success, old.run_count, old.run_first, old.run_last, old.begins
            -- Counts live as long as the record with their epoch.
            WHERE old.expires_at > excluded.merged_at OR (
                SELECT c.expires_at FROM breakerbox.circuits AS c WHERE c.key = old.key AND c.epoch = old.epoch
            ) > excluded.merged_at
            UNION ALL
            SELECT NULL, 0, NULL, NULL, '{}'
            LIMIT 1
        ) AS kept
        CROSS JOIN LATERAL (
            SELECT greatest(coalesce(old.keep_until, old.expires_at), excluded.keep_until) AS keep_until
        ) AS expiry
        CROSS JOIN LATERAL (
            SELECT greatest(kept.last_success, excluded.last_success) AS latest
        ) AS success
        CROSS JOIN LATERAL (
            -- A newer success clears what began before it. What began later is added.
            SELECT
                coalesce(least(sum(part.count), 9223372036854775807), 0)::bigint AS count,
                min(part.first) AS first, max(part.last) AS last
            FROM (VALUES
                (kept.run_count, kept.run_first, kept.run_last),
                (excluded.run_count, excluded.run_first, excluded.run_last)
            ) AS part (count, first, last)
            WHERE part.count > 0 AND part.first > coalesce(success.latest, -1)
                AND excluded.merged_at - part.last < $16::bigint
        ) AS run
        CROSS JOIN LATERAL (
            SELECT
                array_agg(begins) AS begins, array_agg(successes) AS successes, array_agg(failures) AS failures,
                array_agg(slow) AS slow, array_agg(latency_sum) AS latency_sum
            FROM (
                SELECT
                    begins,
                    least(sum(successes), 9223372036854775807)::bigint AS successes,
                    least(sum(failures), 9223372036854775807)::bigint AS failures,
                    least(sum(slow), 9223372036854775807)::bigint AS slow,
                    least(sum(latency_sum), 9223372036854775807)::bigint AS latency_sum
                FROM (
                    SELECT
                        unnest(kept.begins) AS begins, unnest(old.successes) AS successes,
                        unnest(old.failures) AS failures, unnest(old.slow) AS slow,
                        unnest(old.latency_sum) AS latency_sum, old.since
                    UNION ALL
                    SELECT
                        unnest(excluded.begins), unnest(excluded.successes),
                        unnest(excluded.failures), unnest(excluded.slow),
                        unnest(excluded.latency_sum), excluded.since
                ) AS each
                WHERE begins >= since AND begins >= excluded.since
                GROUP BY begins
            ) AS summed
        ) AS bucket
    )
    RETURNING *
)
SELECT
    d.now,
    d.epoch <> d.current_epoch AS late,
    total.successes, total.failures, total.slow, total.latency_sum,
    CASE WHEN run.goes_on THEN shared.run_count ELSE 0 END AS run,
    shared.last_success,
    CASE WHEN run.goes_on THEN shared.run_first END AS run_began,
    d.record
FROM known AS d
FULL JOIN (
    SELECT
        key, since, last_success, run_count, run_first, run_last,
        begins, successes, failures, slow, latency_sum
    FROM merged
    UNION ALL
    -- Late deltas get the window's contents nevertheless.
    SELECT
        d.key, k.since, k.last_success, k.run_count, k.run_first, k.run_last,
        k.begins, k.successes, k.failures, k.slow, k.latency_sum
    FROM known AS d CROSS JOIN LATERAL (
        SELECT * FROM breakerbox.counts AS k
        WHERE k.key = d.key AND k.epoch = d.current_epoch AND (k.expires_at > d.now OR d.record IS NOT NULL)
        OFFSET 0
    ) AS k
    WHERE d.epoch <> d.current_epoch
) AS shared ON shared.key = d.key
CROSS JOIN LATERAL (
    SELECT coalesce(
        shared.run_count > 0 AND shared.run_first > coalesce(shared.last_success, -1)
        AND d.now - shared.run_last < $16::bigint, false
    ) AS goes_on
) AS run
CROSS JOIN LATERAL (
    SELECT
        least(coalesce(sum(successes), 0), 9223372036854775807)::bigint AS successes,
        least(coalesce(sum(failures), 0), 9223372036854775807)::bigint AS failures,
        least(coalesce(sum(slow), 0), 9223372036854775807)::bigint AS slow,
        least(coalesce(sum(latency_sum), 0), 9223372036854775807)::bigint AS latency_sum
    FROM (
        SELECT
            unnest(shared.begins) AS begins, unnest(shared.successes) AS successes, unnest(shared.failures) AS failures,
            unnest(shared.slow) AS slow, unnest(shared.latency_sum) AS latency_sum
    ) AS bucket
    WHERE begins >= shared.since AND begins >= d.since
) AS total
ORDER BY d.ordinal;
