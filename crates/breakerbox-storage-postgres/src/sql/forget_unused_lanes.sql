-- Deletes lanes of dynamic URLs that were not used for a while and in which nothing is unfinished. Those that still have something
-- count as used now, so that they are looked at again after the others. Returns the lanes that were looked at.
-- $1: not used since then; $2: how many; $3: the time.
WITH unused AS MATERIALIZED (
    SELECT l.id, coalesce((SELECT sum(b.count) FROM backlogs b WHERE b.lane = l.id), 0) > 0 AS is_needed
    FROM lanes l WHERE l.used_at < $1 ORDER BY l.used_at LIMIT $2 FOR UPDATE OF l SKIP LOCKED
), gone AS (
    DELETE FROM lanes l USING unused u WHERE l.id = u.id AND NOT u.is_needed
), tried AS (
    DELETE FROM last_attempts a USING unused u WHERE a.lane = u.id AND NOT u.is_needed
), kept AS (
    UPDATE lanes l SET used_at = $3 FROM unused u WHERE l.id = u.id AND u.is_needed
)
SELECT id FROM unused
