-- The last of the first $3 reminders below the id $1. NULL: there are fewer. $2, $4: see list_reminders.sql.
SELECT CASE WHEN count(*) = $3 THEN min(id) END FROM (
    SELECT id FROM reminders WHERE id < $1 AND {condition} ORDER BY id DESC LIMIT $3
) looked
