-- The last of the first $3 events whose ids are from $1 until $2. NULL: there are fewer.
SELECT CASE WHEN count(*) = $3 THEN min(id) END FROM (
    SELECT id FROM events WHERE id >= $1 AND id < $2 ORDER BY id DESC LIMIT $3
) looked
