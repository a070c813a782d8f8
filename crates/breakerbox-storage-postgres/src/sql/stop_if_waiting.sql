-- Finishes waiting deliveries without an attempt. Returns those that were waiting.
-- $1: the deliveries; $2: what becomes of them; $3: why they failed; $4: when, NULL: now; $5: the slot of the counters;
-- $6: the time, NULL: the server's.
WITH clock AS MATERIALIZED (
    SELECT coalesce($4, $6, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
), held AS MATERIALIZED (
    SELECT d.* FROM deliveries d WHERE d.id = ANY ($1) AND d.state = 0 ORDER BY d.id FOR UPDATE
), gone AS (
    DELETE FROM deliveries d USING held h WHERE d.id = h.id
), ended AS (
    INSERT INTO finished (id, event, tenant, lane, state, priority, attempts, requests, due_at, failed_probe, pulled, expires_at,
        size, reminder, finished_at, reason)
    SELECT id, event, tenant, lane, $2, priority, attempts, requests, due_at, failed_probe, pulled, expires_at,
        size, reminder, (SELECT now FROM clock), $3
    FROM held
), counted AS (
    INSERT INTO backlogs AS b (tenant, lane, slot, count, bytes)
    SELECT h.tenant, l.lane, $5, -count(*), -sum(h.size)::bigint
    FROM held h CROSS JOIN LATERAL (VALUES (h.lane), (0::bigint)) AS l (lane)
    GROUP BY h.tenant, l.lane ORDER BY h.tenant, l.lane
    ON CONFLICT (tenant, lane, slot) DO UPDATE SET count = b.count + excluded.count, bytes = b.bytes + excluded.bytes
), checked AS (
    UPDATE reminders r SET look_at = 0 FROM held h WHERE r.id = h.reminder AND r.open_run = h.id
)
SELECT id FROM held
