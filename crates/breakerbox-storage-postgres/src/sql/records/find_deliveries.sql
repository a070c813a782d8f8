-- Deliveries whose ids are from $1 until $2, of the tenant $3, in the lane $4, of the event type $5 and in the state $6, each
-- unless NULL: at most $8 among the first $7. A delivery that waits in a closed lane counts as cancelled, even if its row
-- does not say so yet.
--
-- The program fills in: the source, a condition that an index answers, and the direction.
SELECT d.id FROM (
    SELECT id, event, tenant, lane, state, attempts FROM {source}
    WHERE id >= $1 AND id < $2 AND {condition} ORDER BY id {direction} LIMIT $7
) d
WHERE ($3 IS NULL OR d.tenant = $3)
    AND ($4::bigint IS NULL OR d.lane = $4)
    AND ($6::text IS NULL OR $6 = CASE
        WHEN d.state = 0 AND EXISTS (SELECT FROM closed_lanes c WHERE c.lane = d.lane) THEN 'cancelled'
        WHEN d.state = 0 AND d.attempts = 0 THEN 'pending'
        WHEN d.state = 0 THEN 'retrying'
        WHEN d.state = 1 THEN 'in_flight'
        WHEN d.state = 2 THEN 'delivered'
        WHEN d.state = 3 THEN 'failed'
        ELSE 'cancelled'
    END)
    AND ($5::text IS NULL OR EXISTS (SELECT FROM events e WHERE e.id = d.event AND e.kind = $5))
ORDER BY d.id {direction} LIMIT $8
