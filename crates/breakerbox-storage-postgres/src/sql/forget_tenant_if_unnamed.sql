-- Deletes a deleted tenant that nothing refers to, with its finished jobs and its counters. $1: the tenant.
WITH unnamed AS MATERIALIZED (
    SELECT t.row FROM tenants t WHERE t.row = $1 AND t.deleted_at IS NOT NULL
        AND NOT EXISTS (SELECT FROM lanes WHERE tenant = t.row)
        AND NOT EXISTS (SELECT FROM idempotency_keys WHERE tenant = t.row)
        AND NOT EXISTS (SELECT FROM fan_outs WHERE tenant = t.row)
        AND NOT EXISTS (SELECT FROM jobs WHERE tenant = t.row AND finished_at IS NULL)
        AND NOT EXISTS (SELECT FROM endpoints WHERE tenant = t.row)
        AND NOT EXISTS (SELECT FROM api_keys WHERE tenant = t.row)
        AND NOT EXISTS (SELECT FROM reminders WHERE tenant = t.row)
        AND NOT EXISTS (SELECT FROM notifications WHERE tenant = t.row)
        AND NOT EXISTS (SELECT FROM notification_targets WHERE tenant = t.row)
    FOR UPDATE
), of_jobs AS (
    DELETE FROM jobs j USING unnamed u WHERE j.tenant = u.row
), of_totals AS (
    DELETE FROM reminder_totals r USING unnamed u WHERE r.tenant = u.row
), of_backlogs AS (
    DELETE FROM backlogs b USING unnamed u WHERE b.tenant = u.row
)
DELETE FROM tenants t USING unnamed u WHERE t.row = u.row
