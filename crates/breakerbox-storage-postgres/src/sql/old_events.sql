-- Events in the order of their ids, with those of their deliveries that are old enough to be deleted, and whether others are left.
-- $1: the event to begin after; $2: the event to end before; $3: how many; $4, $5: what was finished or failed until then is old.
SELECT e.id, EXISTS (
        SELECT FROM deliveries d WHERE d.id > e.id AND d.id <= e.id + e.fan_out
    ) OR EXISTS (
        SELECT FROM finished f WHERE f.id > e.id AND f.id <= e.id + e.fan_out
            AND f.finished_at > CASE WHEN f.state = 3 THEN $5 ELSE $4 END
    ), ARRAY (
        SELECT f.id FROM finished f WHERE f.id > e.id AND f.id <= e.id + e.fan_out
            AND f.finished_at <= CASE WHEN f.state = 3 THEN $5 ELSE $4 END
    )
FROM events e WHERE e.id > $1 AND e.id < $2 ORDER BY e.id LIMIT $3
