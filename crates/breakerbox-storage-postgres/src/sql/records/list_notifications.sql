-- Notifications older than the id $1, of the tenant $2 or of all, the newest first, at most $3.
SELECT n.id, n.subject, n.epoch, t.id AS tenant, n.at, n.news FROM notifications n LEFT JOIN tenants t ON t.row = n.tenant
WHERE n.id < $1 AND $2::bigint IS NULL ORDER BY n.id DESC LIMIT $3
