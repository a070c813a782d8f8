SELECT n.id, n.subject, n.epoch, t.id AS tenant, n.at, n.news FROM notifications n LEFT JOIN tenants t ON t.row = n.tenant
WHERE n.id = $1
