-- The third step of a swap, with everything locked: replaces the record of $1 if its version is $2 (null: if
-- there is none) and the time is not past $3. The new record: $4 version, $5 epoch, $6 status, $7 record, $8
-- time to live (null: forever). Sends the message $10 to the listeners on the channel $9. A new epoch drops the
-- counts of the old one.
--
-- Returns the time, whether the version was the expected one, whether the record was replaced, and the previous
-- record.
WITH found AS MATERIALIZED (
    SELECT
        c.key, clock.now, lives.yes AS lives,
        CASE WHEN lives.yes THEN c.version END AS version,
        CASE WHEN lives.yes THEN c.epoch ELSE 0 END AS epoch,
        CASE WHEN lives.yes THEN c.record END AS record
    FROM breakerbox.circuits AS c
    CROSS JOIN LATERAL (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now OFFSET 0) AS clock
    CROSS JOIN LATERAL (
        SELECT c.record IS NOT NULL AND (
            c.expires_at > clock.now
            OR (SELECT k.expires_at FROM breakerbox.counts AS k WHERE k.key = c.key AND k.epoch = c.epoch) > clock.now
        ) AS yes
        OFFSET 0
    ) AS lives
    WHERE c.key = $1::bytea
),
swapped AS (
    UPDATE breakerbox.circuits AS c
    SET
        version = $4::bytea, epoch = $5::bigint, status = $6::text, record = $7::bytea,
        expires_at = coalesce(found.now + $8::bigint, 9223372036854775807)
    FROM found
    WHERE c.key = $1::bytea AND found.version IS NOT DISTINCT FROM $2::bytea AND found.now <= $3::bigint
    RETURNING found.epoch AS epoch_before
),
dropped AS (
    DELETE FROM breakerbox.counts AS k
    USING swapped
    WHERE k.key = $1::bytea AND swapped.epoch_before <> $5::bigint
),
told AS MATERIALIZED (
    SELECT pg_notify($9::text, $10::text) FROM swapped
)
SELECT
    found.now,
    found.version IS NOT DISTINCT FROM $2::bytea AS expected,
    EXISTS (SELECT FROM told) AS won,
    found.record
FROM found;
