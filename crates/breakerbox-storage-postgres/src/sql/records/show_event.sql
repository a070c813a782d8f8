SELECT e.id, t.id AS tenant, e.tenant AS owner, e.kind, p.payload, e.content_type, e.priority::bigint AS priority, e.not_before,
    e.expires_at, e.url, e.fan_out::bigint AS fan_out,
    coalesce((SELECT e.fan_out - f.position FROM fan_outs f WHERE f.event = e.id), 0)::bigint AS fanning_out
FROM events e JOIN payloads p ON p.event = e.id JOIN tenants t ON t.row = e.tenant WHERE e.id = $1
