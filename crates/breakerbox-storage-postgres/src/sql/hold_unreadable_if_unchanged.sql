-- A reminder that can't be read, if it has not changed since. $1: its id; $2: its version.
SELECT r.tenant, r.state, r.size, r.numbered, r.reference, t.id
FROM reminders r LEFT JOIN tenants t ON t.row = r.tenant WHERE r.id = $1 AND r.turn = $2
FOR UPDATE OF r
