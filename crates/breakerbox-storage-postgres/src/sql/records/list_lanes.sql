-- The lanes below the id $1 with unfinished deliveries, of the tenant $2 or of all, the newest first: at most $4 among the
-- next $3.
SELECT b.lane, t.id AS tenant, l.key, b.count, b.bytes, next.due_at, next.attempts::bigint AS attempts
FROM (
        SELECT lane, tenant, sum(count)::bigint AS count, sum(bytes)::bigint AS bytes FROM backlogs
        WHERE lane > 0 AND lane < $1 AND ($2::bigint IS NULL OR tenant = $2)
        GROUP BY lane, tenant ORDER BY lane DESC, tenant DESC LIMIT $3
    ) b
    JOIN tenants t ON t.row = b.tenant
    LEFT JOIN lanes l ON l.id = b.lane
    LEFT JOIN LATERAL (
        SELECT d.due_at, d.attempts FROM unnest(ARRAY[0, 1, 2, 3]) AS p (priority), LATERAL (
            SELECT d.due_at, d.attempts FROM deliveries d
            WHERE d.state = 0 AND d.lane = b.lane AND d.priority = p.priority ORDER BY d.due_at LIMIT 1
        ) d
        ORDER BY d.due_at LIMIT 1
    ) next ON true
WHERE b.count > 0 AND NOT EXISTS (SELECT FROM closed_lanes c WHERE c.lane = b.lane)
ORDER BY b.lane DESC LIMIT $4
