-- Deletes events with their payloads, if none of their deliveries is left or still has to be written. $1: the events.
WITH gone AS (
    DELETE FROM events e WHERE e.id = ANY ($1)
        AND NOT EXISTS (SELECT FROM deliveries d WHERE d.id > e.id AND d.id <= e.id + e.fan_out)
        AND NOT EXISTS (SELECT FROM finished f WHERE f.id > e.id AND f.id <= e.id + e.fan_out)
        AND NOT EXISTS (SELECT FROM fan_outs o WHERE o.event = e.id)
    RETURNING e.id
)
DELETE FROM payloads p USING gone g WHERE p.event = g.id
