-- The unfinished deliveries of all tenants, how many tenants have any, and how many deliveries fan-outs have not written yet.
SELECT coalesce(sum(b.count), 0)::bigint, coalesce(sum(b.bytes), 0)::bigint, (count(*) FILTER (WHERE b.count > 0))::bigint,
    (SELECT coalesce(sum(e.fan_out - f.position), 0)::bigint FROM fan_outs f JOIN events e ON e.id = f.event)
FROM (SELECT sum(count) AS count, sum(bytes) AS bytes FROM backlogs WHERE lane = 0 GROUP BY tenant) b
