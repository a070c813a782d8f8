-- The last of the next $3 lanes below the id $1, of the tenant $2 or of all. NULL: there are fewer.
SELECT CASE WHEN count(*) = $3 THEN min(lane) END FROM (
    SELECT lane FROM backlogs WHERE lane > 0 AND lane < $1 AND ($2::bigint IS NULL OR tenant = $2)
    GROUP BY lane, tenant ORDER BY lane DESC, tenant DESC LIMIT $3
) looked
