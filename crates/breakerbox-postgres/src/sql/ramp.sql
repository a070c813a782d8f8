-- The second step of a ramp request, with the ramp of $1 locked: releases the slots $6, whose calls succeeded
-- or not according to $7; replaces the limit by $9 (0: the ramp is over) if the ramp is at the step $8 (null:
-- do not replace it); acquires the slots $10 up to the limit, for $4 each. A ramp from another epoch than $2 is
-- ignored, and a new one starts with the limit $3 at $5. The ramp is kept for $11. The caller decides the next
-- limit.
--
-- Returns the time, whether the record has another epoch, and the ramp; refused_at is from before this request.
WITH found AS MATERIALIZED (
    SELECT
        clock.now,
        coalesce(current.epoch = $2::bigint, false) AS is_current,
        CASE WHEN lives.yes THEN r.step ELSE 0 END AS step,
        CASE WHEN lives.yes THEN r.call_limit ELSE $3::bigint END AS call_limit,
        CASE WHEN lives.yes THEN r.successes ELSE 0 END AS successes,
        CASE WHEN lives.yes THEN r.refused_at ELSE $5::bigint END AS refused_at,
        CASE WHEN lives.yes THEN r.places ELSE '{}' END AS places,
        CASE WHEN lives.yes THEN r.places_expire ELSE '{}' END AS places_expire
    FROM breakerbox.ramps AS r
    CROSS JOIN LATERAL (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now OFFSET 0) AS clock
    CROSS JOIN LATERAL (SELECT r.epoch = $2::bigint AND r.expires_at > clock.now AS yes OFFSET 0) AS lives
    LEFT JOIN LATERAL (
        SELECT c.epoch FROM breakerbox.circuits AS c
        WHERE c.key = $1::bytea AND c.record IS NOT NULL AND (
            c.expires_at > clock.now
            OR (SELECT k.expires_at FROM breakerbox.counts AS k WHERE k.key = c.key AND k.epoch = c.epoch) > clock.now
        )
        OFFSET 0
    ) AS current ON true
    WHERE r.key = $1::bytea
),
-- Slots that have not expired, each with whether it is released, and whether its call succeeded.
held AS MATERIALIZED (
    SELECT p.place, p.expires, g.place IS NOT NULL AS given, coalesce(g.succeeded, false) AS succeeded
    FROM found
    CROSS JOIN LATERAL unnest(found.places, found.places_expire) AS p (place, expires)
    LEFT JOIN unnest($6::bytea[], $7::boolean[]) AS g (place, succeeded) ON g.place = p.place
    WHERE p.expires > found.now
),
kept AS MATERIALIZED (
    SELECT
        count(*) FILTER (WHERE NOT given) AS in_flight,
        count(*) FILTER (WHERE succeeded) AS successes,
        coalesce(array_agg(place) FILTER (WHERE NOT given), '{}') AS places,
        coalesce(array_agg(expires) FILTER (WHERE NOT given), '{}') AS places_expire
    FROM held
),
stepped AS MATERIALIZED (
    SELECT
        replace.yes AS replaced,
        CASE WHEN replace.yes THEN found.step + 1 ELSE found.step END AS step,
        CASE WHEN replace.yes THEN $9::bigint ELSE found.call_limit END AS call_limit,
        CASE WHEN replace.yes THEN 0 ELSE found.successes + kept.successes END AS successes
    FROM found
    CROSS JOIN kept
    CROSS JOIN LATERAL (SELECT coalesce(found.step = $8::bigint, false) AS yes) AS replace
),
taken AS MATERIALIZED (
    SELECT least(greatest(stepped.call_limit - kept.in_flight, 0), cardinality($10::bytea[]))::int AS count
    FROM stepped CROSS JOIN kept
),
written AS (
    UPDATE breakerbox.ramps AS r
    SET
        epoch = $2::bigint, step = stepped.step, call_limit = stepped.call_limit, successes = stepped.successes,
        refused_at = CASE
            WHEN stepped.call_limit > 0 AND taken.count < cardinality($10::bytea[]) THEN found.now
            ELSE found.refused_at
        END,
        places = kept.places || ($10::bytea[])[1:taken.count],
        places_expire = kept.places_expire
            || array_fill(found.now + $4::bigint, ARRAY[taken.count]),
        expires_at = found.now + $11::bigint
    FROM found CROSS JOIN kept CROSS JOIN stepped CROSS JOIN taken
    WHERE r.key = $1::bytea AND found.is_current
)
SELECT
    found.now, NOT found.is_current AS late,
    stepped.step, stepped.call_limit, stepped.successes, found.refused_at,
    kept.in_flight + taken.count AS in_flight, taken.count::bigint AS taken, stepped.replaced
FROM found CROSS JOIN kept CROSS JOIN stepped CROSS JOIN taken;
