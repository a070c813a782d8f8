-- The reminders that decisions are about, if they have not changed since they were read. $1, $2: id and version of each; $3: whether
-- a run is fired, which needs the payload.
SELECT n.nth, r.tenant, r.size, r.numbered, r.settings, p.payload, t.id
FROM unnest($1, $2, $3) WITH ORDINALITY AS n (id, turn, fires, nth)
    JOIN reminders r ON r.id = n.id AND r.turn = n.turn
    LEFT JOIN reminder_payloads p ON p.reminder = r.id AND n.fires
    LEFT JOIN tenants t ON t.row = r.tenant
ORDER BY r.id
FOR UPDATE OF r
