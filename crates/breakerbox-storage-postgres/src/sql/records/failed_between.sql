-- How many deliveries failed for good from $1 until $2, for each tenant and minute.
SELECT t.id AS tenant, f.finished_at / 60000000 AS minute, count(*) AS count
FROM finished f JOIN tenants t ON t.row = f.tenant
WHERE f.state = 3 AND f.finished_at >= $1 AND f.finished_at < $2 AND t.deleted_at IS NULL
GROUP BY t.id, f.tenant, f.finished_at / 60000000
