-- Deletes reminders that ended before $1, at most $2, and returns how many. Stopped ones still count for the limits, unless they
-- were stopped because they can't be read.
WITH ended AS MATERIALIZED (
    SELECT id, tenant, size, state = 2 AND reason <> 3 AS is_counted FROM reminders
    WHERE ended_at < $1 ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED
), payloads AS (
    DELETE FROM reminder_payloads WHERE reminder IN (SELECT id FROM ended)
), uncounted AS (
    UPDATE reminder_totals t SET count = greatest(t.count - e.count, 0), bytes = greatest(t.bytes - e.bytes, 0)
    FROM (SELECT tenant, count(*) AS count, sum(size)::bigint AS bytes FROM ended WHERE is_counted GROUP BY tenant) e
    WHERE t.tenant = e.tenant
), gone AS (
    DELETE FROM reminders WHERE id IN (SELECT id FROM ended)
)
SELECT count(*) FROM ended
