-- Ends leases, if they are current: the deliveries wait again or are finished. Returns those whose lease was current.
-- What would wait in a closed lane, or for a reminder that was paused or cancelled meanwhile, is cancelled.
-- $1: the time, NULL: the server's; $2: the slot of the counters; then for each settlement
-- $3, $4: delivery and lease; $5, $6: what becomes of it (0: it waits), and why it failed; $7: when it is due, NULL: as before;
-- $8, $9: attempts used up, and requests made; $10: the outage in which it failed a probe; $11: whether it stays brought forward;
-- $12 to $18: the attempt, unless $12 is NULL.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
), settlements AS (
    SELECT * FROM unnest($3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
    WITH ORDINALITY AS s (id, lease, step, reason, next_due_at, uses, makes, probe_failed, stays_pulled,
        started_at, latency, status, fault, detail, probe, response, nth)
), held AS MATERIALIZED (
    SELECT s.nth, s.step, s.reason, s.next_due_at, s.uses, s.makes, s.probe_failed, s.stays_pulled, s.started_at, s.latency,
        s.status, s.fault, s.detail, s.probe, s.response,
        d.id, d.event, d.tenant, d.lane, d.priority, d.attempts, d.requests, d.due_at, d.failed_probe, d.pulled, d.expires_at,
        d.size, d.reminder
    FROM settlements s JOIN deliveries d ON d.id = s.id AND d.lease = s.lease
    WHERE d.state = 1
    ORDER BY d.id
    FOR UPDATE OF d
), judged AS MATERIALIZED (
    SELECT h.*, r.state AS reminder_state, CASE
        WHEN h.step <> 0 THEN h.step
        WHEN r.state IN (1, 4) OR EXISTS (SELECT FROM closed_lanes x WHERE x.lane = h.lane) THEN 4::smallint
        ELSE 0::smallint
    END AS becomes
    FROM held h LEFT JOIN reminders r ON r.id = h.reminder AND r.open_run = h.id
), noted AS (
    INSERT INTO attempts (delivery, number, started_at, latency, status, fault, detail, probe, response)
    SELECT id, requests + 1, started_at, latency, status, fault, detail, probe, response FROM judged WHERE started_at IS NOT NULL
), latest AS (
    INSERT INTO last_attempts AS l (lane, started_at, status, fault, detail)
    SELECT DISTINCT ON (j.lane) j.lane, j.started_at, j.status, j.fault, j.detail FROM judged j
    WHERE j.started_at IS NOT NULL AND NOT EXISTS (SELECT FROM closed_lanes x WHERE x.lane = j.lane)
        AND NOT EXISTS (
            SELECT FROM last_attempts k
            WHERE k.lane = j.lane AND k.status IS NOT DISTINCT FROM j.status AND k.fault IS NOT DISTINCT FROM j.fault
                AND k.started_at > j.started_at - 600000000
        )
    ORDER BY j.lane, j.started_at DESC, j.nth DESC
    ON CONFLICT (lane) DO UPDATE
    SET started_at = excluded.started_at, status = excluded.status, fault = excluded.fault, detail = excluded.detail
    WHERE l.started_at <= excluded.started_at
), waits AS (
    UPDATE deliveries d
    SET state = 0, lease = NULL, lease_until = NULL, worker = NULL, due_at = coalesce(j.next_due_at, d.due_at),
        attempts = d.attempts + j.uses, requests = d.requests + j.makes,
        failed_probe = coalesce(j.probe_failed, d.failed_probe), pulled = d.pulled AND j.stays_pulled
    FROM judged j WHERE d.id = j.id AND j.becomes = 0
), gone AS (
    DELETE FROM deliveries d USING judged j WHERE d.id = j.id AND j.becomes <> 0
), ended AS (
    INSERT INTO finished (id, event, tenant, lane, state, priority, attempts, requests, due_at, failed_probe, pulled, expires_at,
        size, reminder, finished_at, reason)
    SELECT id, event, tenant, lane, becomes, priority, attempts + uses, requests + makes, due_at, failed_probe, pulled, expires_at,
        size, reminder, (SELECT now FROM clock), CASE WHEN becomes = 3 THEN reason END
    FROM judged WHERE becomes <> 0
), counted AS (
    INSERT INTO backlogs AS b (tenant, lane, slot, count, bytes)
    SELECT j.tenant, l.lane, $2, -count(*), -sum(j.size)::bigint
    FROM judged j CROSS JOIN LATERAL (VALUES (j.lane), (0::bigint)) AS l (lane)
    WHERE j.becomes <> 0 GROUP BY j.tenant, l.lane ORDER BY j.tenant, l.lane
    ON CONFLICT (tenant, lane, slot) DO UPDATE SET count = b.count + excluded.count, bytes = b.bytes + excluded.bytes
), undone AS (
    -- A run of a paused reminder counts as not fired. Its number is not used again: a receiver may have seen it.
    UPDATE reminders r
    SET open_run = NULL, runs = r.runs - 1, last_at = r.before_at, turn = r.turn + 1,
        ran_at = (
            SELECT e.scheduled_at FROM events e WHERE e.reminder = r.id AND e.run < r.numbered ORDER BY e.id DESC LIMIT 1
        ),
        skipped = r.skipped - coalesce((SELECT e.skipped FROM events e WHERE e.id = j.event), 0)
    FROM judged j WHERE r.id = j.reminder AND r.open_run = j.id AND j.step = 0 AND j.reminder_state = 1
), checked AS (
    UPDATE reminders r SET look_at = 0
    FROM judged j
    WHERE r.id = j.reminder AND r.open_run = j.id AND j.becomes <> 0 AND NOT (j.step = 0 AND j.reminder_state = 1)
)
SELECT nth, lane, tenant, becomes FROM judged
