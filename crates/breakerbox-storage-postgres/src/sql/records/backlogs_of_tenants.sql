-- The unfinished deliveries of the tenants with the numbers $1.
SELECT tenant, sum(count)::bigint, sum(bytes)::bigint FROM backlogs WHERE tenant = ANY ($1) AND lane = 0 GROUP BY tenant
