-- The outages of circuits: one row from the trip until the circuit closes. A trip is notified at `due_at`, if the circuit has not
-- closed by then; a recovery only if people were notified of its outage.
CREATE TABLE outages (
    subject TEXT PRIMARY KEY,           -- the circuit's key
    epoch   INTEGER NOT NULL,           -- of the change that began it
    at      INTEGER NOT NULL,           -- when it began
    due_at  INTEGER,                    -- when people are notified; NULL: they were
    news    TEXT                        -- JSON of the notification to send; NULL: none is left to send
) STRICT, WITHOUT ROWID;
CREATE INDEX outages_to_notify ON outages (due_at) WHERE due_at IS NOT NULL;

-- Outages of which people were notified, and of whose end they were not.
INSERT INTO outages (subject, epoch, at)
    SELECT subject, max(epoch), at FROM notifications n WHERE kind = 'trip'
        AND NOT EXISTS (SELECT 1 FROM notifications r WHERE r.subject = n.subject AND r.kind = 'recovery' AND r.epoch > n.epoch)
    GROUP BY subject;
