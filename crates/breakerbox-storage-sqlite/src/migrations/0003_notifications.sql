-- Notices: what people were told, and what became of it at each target.

CREATE TABLE notices (
    id      INTEGER PRIMARY KEY,
    kind    TEXT NOT NULL,
    subject TEXT NOT NULL,              -- a circuit's key, an endpoint, a reminder, a tenant and a limit, the store
    epoch   INTEGER NOT NULL,           -- which change of the subject
    tenant  INTEGER,                    -- NULL: nobody's but the operator's
    at      INTEGER NOT NULL,
    news    TEXT NOT NULL,              -- JSON
    UNIQUE (subject, kind, epoch)
) STRICT;
CREATE INDEX notices_of_tenant ON notices (tenant, id);

-- state: 0 waiting, 1 sent, 2 given up, 3 dropped because its target is gone
CREATE TABLE notice_sends (
    notice     INTEGER NOT NULL,
    target     TEXT NOT NULL,
    state      INTEGER NOT NULL,
    tries      INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,
    settled_at INTEGER,                 -- when it was last tried
    answer     TEXT,                    -- what came of that
    message    TEXT,                    -- in which message
    PRIMARY KEY (notice, target)
) STRICT, WITHOUT ROWID;
CREATE INDEX notices_waiting ON notice_sends (target, due_at, notice) WHERE state = 0;

-- Counted all along, so that a bound costs nothing.
CREATE TABLE notice_targets (
    name     TEXT PRIMARY KEY,
    tenant   INTEGER,                   -- whose; NULL: the operator's
    waiting  INTEGER NOT NULL,
    not_kept INTEGER NOT NULL           -- beyond the bound, and not said yet
) STRICT, WITHOUT ROWID;
CREATE INDEX targets_waiting ON notice_targets (name) WHERE waiting > 0;

-- Dead letters by the time they became such. Only they pay for it.
CREATE INDEX failed_lately ON deliveries (finished_at, tenant) WHERE state = 3;
