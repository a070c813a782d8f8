-- The last of the first $4 deliveries whose ids are from $1 until $2. NULL: there are fewer. $3: see find_deliveries.sql.
SELECT CASE WHEN count(*) = $4 THEN {last}(id) END FROM (
    SELECT id FROM {source} WHERE id >= $1 AND id < $2 AND {condition} ORDER BY id {direction} LIMIT $4
) looked
