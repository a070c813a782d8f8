-- How many deliveries of the lane $1 of the tenant $2 wait: the unfinished ones without the leased ones, which are few.
SELECT greatest(
    (SELECT coalesce(sum(b.count), 0) FROM backlogs b WHERE b.tenant = $2 AND b.lane = $1)
    - (SELECT count(*) FROM deliveries d WHERE d.state = 1 AND d.lane = $1), 0
)::bigint
