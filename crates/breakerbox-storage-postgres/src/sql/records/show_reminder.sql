SELECT r.id, t.id AS tenant, r.tenant AS owner, r.settings, r.reference, r.size, r.state::bigint AS state, r.reason::bigint AS reason,
    r.runs, r.skipped, r.last_at, r.look_at, r.open_run, r.created_at, r.changed_at, r.revision, r.ran_at
FROM reminders r JOIN tenants t ON t.row = r.tenant WHERE r.id = $1
