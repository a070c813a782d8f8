-- Adds to the counters of lanes; the lane 0 is the tenant's total. $1: the slot; $2 to $5: tenant, lane, count and bytes of each.
INSERT INTO backlogs AS b (tenant, lane, slot, count, bytes)
SELECT n.tenant, n.lane, $1, n.count, n.bytes FROM unnest($2, $3, $4, $5) AS n (tenant, lane, count, bytes)
ORDER BY n.tenant, n.lane
ON CONFLICT (tenant, lane, slot) DO UPDATE SET count = b.count + excluded.count, bytes = b.bytes + excluded.bytes
