-- The unfinished deliveries of tenants, and their bytes. $1: the tenants.
SELECT b.tenant, sum(b.count)::bigint, sum(b.bytes)::bigint FROM backlogs b
WHERE b.tenant = ANY ($1) AND b.lane = 0 GROUP BY b.tenant
