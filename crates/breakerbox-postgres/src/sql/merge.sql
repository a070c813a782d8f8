-- Adds counts for many circuits at once. Returns a row for each delta, in the same order.
--
-- For each delta: $1 its key (each at most once), $2 its epoch, $3 the width of a bucket, $4 the time to live
-- of the counts, $5 and $6 the range of its buckets among all buckets, $7 the age of its latest success, $8
-- that of the first failure after it. For all buckets: $9 age, $10 successes, $11 failures, $12 slow calls, $13
-- sum of latencies, $14 consecutive failures (the run).
--
-- The column first_outcome is from an earlier version, and stays empty.
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
        CASE WHEN d.run_age IS NOT NULL THEN greatest(clock.now - d.run_age, 0) END AS run_began
    FROM
        (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock,
        unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::int[], $6::int[], $7::bigint[], $8::bigint[])
            WITH ORDINALITY
            AS d (key, epoch, width, keep_for, buckets_from, buckets_to, success_age, run_age, ordinal)
),
known AS MATERIALIZED (
    SELECT
        d.*,
        CASE WHEN circuit.lives THEN circuit.record END AS record,
        CASE WHEN circuit.lives THEN circuit.epoch ELSE 0 END AS current_epoch,
        coalesce(d.run_began > coalesce(d.last_success, -1), false) AS has_run
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
        key, epoch, merged_at, since, expires_at, last_success, run_began,
        begins, successes, failures, slow, latency_sum, run
    )
    SELECT
        d.key, d.epoch, d.now, d.since, d.expires_at, d.last_success,
        CASE WHEN d.has_run THEN d.run_began END,
        ARRAY(
            SELECT greatest(d.now - age, 0) / d.width * d.width
            FROM unnest(($9::bigint[])[d.buckets_from:d.buckets_to]) AS age
        ),
        ($10::bigint[])[d.buckets_from:d.buckets_to],
        ($11::bigint[])[d.buckets_from:d.buckets_to],
        ($12::bigint[])[d.buckets_from:d.buckets_to],
        ($13::bigint[])[d.buckets_from:d.buckets_to],
        CASE WHEN d.has_run
            THEN ($14::bigint[])[d.buckets_from:d.buckets_to]
            ELSE array_fill(0::bigint, ARRAY[d.buckets_to - d.buckets_from + 1])
        END
    FROM known AS d
    WHERE d.epoch = d.current_epoch
    ORDER BY d.key
    ON CONFLICT (key, epoch) DO UPDATE SET (
        merged_at, since, expires_at, last_success, run_began,
        begins, successes, failures, slow, latency_sum, run
    ) = (
        SELECT
            excluded.merged_at, excluded.since, greatest(old.expires_at, excluded.expires_at),
            success.latest,
            least(CASE WHEN NOT success.ends_run THEN kept.run_began END, CASE WHEN run.goes_on THEN excluded.run_began END),
            coalesce(bucket.begins, '{}'), coalesce(bucket.successes, '{}'), coalesce(bucket.failures, '{}'),
            coalesce(bucket.slow, '{}'), coalesce(bucket.latency_sum, '{}'), coalesce(bucket.run, '{}')
        FROM (
            SELECT old.last_success, old.run_began, old.begins
            -- Counts live as long as the record with their epoch.
            WHERE old.expires_at > excluded.merged_at OR (
                SELECT c.expires_at FROM breakerbox.circuits AS c WHERE c.key = old.key AND c.epoch = old.epoch
            ) > excluded.merged_at
            UNION ALL
            SELECT NULL, NULL, '{}'
            LIMIT 1
        ) AS kept
        CROSS JOIN LATERAL (
            SELECT
                greatest(kept.last_success, excluded.last_success) AS latest,
                -- A success ends the run of failures, unless the whole run is later. The run is always later
                -- than the previous success.
                coalesce(excluded.last_success >= kept.run_began, false) AS ends_run
        ) AS success
        CROSS JOIN LATERAL (
            SELECT coalesce(excluded.run_began > coalesce(success.latest, -1), false) AS goes_on
        ) AS run
        CROSS JOIN LATERAL (
            SELECT
                array_agg(begins) AS begins, array_agg(successes) AS successes, array_agg(failures) AS failures,
                array_agg(slow) AS slow, array_agg(latency_sum) AS latency_sum, array_agg(run) AS run
            FROM (
                SELECT
                    begins,
                    least(sum(successes), 9223372036854775807)::bigint AS successes,
                    least(sum(failures), 9223372036854775807)::bigint AS failures,
                    least(sum(slow), 9223372036854775807)::bigint AS slow,
                    least(sum(latency_sum), 9223372036854775807)::bigint AS latency_sum,
                    least(sum(CASE WHEN counts_for_run THEN run ELSE 0 END), 9223372036854775807)::bigint AS run
                FROM (
                    SELECT
                        unnest(kept.begins) AS begins, unnest(old.successes) AS successes,
                        unnest(old.failures) AS failures, unnest(old.slow) AS slow,
                        unnest(old.latency_sum) AS latency_sum, unnest(old.run) AS run,
                        NOT success.ends_run AS counts_for_run, old.since
                    UNION ALL
                    SELECT
                        unnest(excluded.begins), unnest(excluded.successes),
                        unnest(excluded.failures), unnest(excluded.slow),
                        unnest(excluded.latency_sum), unnest(excluded.run),
                        run.goes_on, excluded.since
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
    total.successes, total.failures, total.slow, total.latency_sum, total.run,
    shared.last_success, shared.run_began,
    d.record
FROM known AS d
FULL JOIN (
    SELECT key, since, last_success, run_began, begins, successes, failures, slow, latency_sum, run FROM merged
    UNION ALL
    -- Late deltas get the window's contents nevertheless.
    SELECT
        d.key, k.since, k.last_success, k.run_began,
        k.begins, k.successes, k.failures, k.slow, k.latency_sum, k.run
    FROM known AS d CROSS JOIN LATERAL (
        SELECT * FROM breakerbox.counts AS k
        WHERE k.key = d.key AND k.epoch = d.current_epoch AND (k.expires_at > d.now OR d.record IS NOT NULL)
        OFFSET 0
    ) AS k
    WHERE d.epoch <> d.current_epoch
) AS shared ON shared.key = d.key
CROSS JOIN LATERAL (
    SELECT
        least(coalesce(sum(successes), 0), 9223372036854775807)::bigint AS successes,
        least(coalesce(sum(failures), 0), 9223372036854775807)::bigint AS failures,
        least(coalesce(sum(slow), 0), 9223372036854775807)::bigint AS slow,
        least(coalesce(sum(latency_sum), 0), 9223372036854775807)::bigint AS latency_sum,
        least(coalesce(sum(run), 0), 9223372036854775807)::bigint AS run
    FROM (
        SELECT
            unnest(shared.begins) AS begins, unnest(shared.successes) AS successes, unnest(shared.failures) AS failures,
            unnest(shared.slow) AS slow, unnest(shared.latency_sum) AS latency_sum, unnest(shared.run) AS run
    ) AS bucket
    WHERE begins >= shared.since AND begins >= d.since
) AS total
ORDER BY d.ordinal;
