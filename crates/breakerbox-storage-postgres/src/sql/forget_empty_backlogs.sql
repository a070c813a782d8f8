-- Deletes the counters of lanes in which nothing is unfinished: their rows add up to nothing. $1: how many lanes.
WITH empty AS (
    SELECT b.tenant, b.lane FROM backlogs b GROUP BY b.tenant, b.lane HAVING sum(b.count) = 0 AND sum(b.bytes) = 0 LIMIT $1
), held AS (
    SELECT b.tenant, b.lane, b.slot, b.count, b.bytes FROM backlogs b JOIN empty e ON e.tenant = b.tenant AND e.lane = b.lane
    ORDER BY b.tenant, b.lane, b.slot FOR UPDATE OF b SKIP LOCKED
), whole AS (
    SELECT h.tenant, h.lane FROM held h GROUP BY h.tenant, h.lane HAVING sum(h.count) = 0 AND sum(h.bytes) = 0
)
DELETE FROM backlogs b USING held h JOIN whole w ON w.tenant = h.tenant AND w.lane = h.lane
WHERE b.tenant = h.tenant AND b.lane = h.lane AND b.slot = h.slot
