-- Reminders below the id $1 of the tenant $2, in the state $3 and with the reference $4, each unless NULL: the newest $6 among the
-- first $5. The program fills in a condition that an index answers.
SELECT r.id, t.id AS tenant, r.tenant AS owner, r.settings, r.reference, r.size, r.state::bigint AS state, r.reason::bigint AS reason,
    r.runs, r.skipped, r.last_at, r.look_at, r.open_run, r.created_at, r.changed_at, r.revision, r.ran_at
FROM (SELECT * FROM reminders WHERE id < $1 AND {condition} ORDER BY id DESC LIMIT $5) r JOIN tenants t ON t.row = r.tenant
WHERE t.deleted_at IS NULL AND ($3::bigint IS NULL OR r.state = $3) AND ($4::text IS NULL OR r.reference = $4)
ORDER BY r.id DESC LIMIT $6
