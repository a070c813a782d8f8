-- The first schema. Once a version with it is released it never changes again; until then it may.
--
-- Times are microseconds since 1970. Ids sort by the time they were made. An event and its deliveries have consecutive ids:
-- the deliveries of event E with fan_out N are E + 1 to E + N. So neither needs an index on the other.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Tenants are known by a small number everywhere else.
CREATE TABLE tenants (
    row        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL,
    settings   TEXT NOT NULL,           -- JSON
    sealed     BLOB NOT NULL,           -- secrets
    revision   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    deleted_at INTEGER                  -- kept, because finished work still names it
) STRICT;
CREATE UNIQUE INDEX tenant_names ON tenants (id) WHERE deleted_at IS NULL;

-- What waits or is leased in each lane, for limits and views. Written once in a commit, however much changed.
CREATE TABLE backlogs (
    lane   INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    count  INTEGER NOT NULL,
    bytes  INTEGER NOT NULL
) STRICT;

CREATE TABLE endpoints (
    id         INTEGER PRIMARY KEY,
    tenant     INTEGER NOT NULL REFERENCES tenants (row),
    settings   TEXT NOT NULL,           -- JSON
    disabled   TEXT,                    -- why; NULL: enabled
    sealed     BLOB NOT NULL,           -- secrets and headers
    revision   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT;
CREATE INDEX endpoints_of_tenant ON endpoints (tenant, id);

-- Lanes of dynamic URLs. An endpoint's lane has the endpoint's id and no row here.
CREATE TABLE lanes (
    id      INTEGER PRIMARY KEY,
    tenant  INTEGER NOT NULL,
    key     TEXT NOT NULL,              -- the circuit's
    used_at INTEGER NOT NULL,           -- to the day
    UNIQUE (tenant, key)
) STRICT;

-- Lanes whose endpoint was deleted and that are not empty yet.
CREATE TABLE closed_lanes (
    lane INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE events (
    id           INTEGER PRIMARY KEY,
    tenant       INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    content_type TEXT,                  -- NULL: application/json
    priority     INTEGER NOT NULL,      -- 0 is the highest
    fan_out      INTEGER NOT NULL,      -- how many deliveries there were
    size         INTEGER NOT NULL,      -- of the payload
    not_before   INTEGER,
    expires_at   INTEGER,
    url          TEXT                   -- dynamic; NULL: the tenant's endpoints
) STRICT;

CREATE TABLE payloads (
    event   INTEGER PRIMARY KEY,
    payload BLOB NOT NULL
) STRICT;

-- state: 0 waiting, 1 leased, 2 delivered, 3 failed, 4 cancelled
-- reason of a failed one: 0 rejected, 1 exhausted, 2 gone, 3 expired
CREATE TABLE deliveries (
    id           INTEGER PRIMARY KEY,
    event        INTEGER NOT NULL,
    tenant       INTEGER NOT NULL,
    lane         INTEGER NOT NULL,      -- an endpoint's id, unless the event has a URL
    state        INTEGER NOT NULL,
    priority     INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,      -- used up
    requests     INTEGER NOT NULL,      -- made
    due_at       INTEGER NOT NULL,
    failed_probe INTEGER NOT NULL,      -- in which outage; 0: none
    expires_at   INTEGER,
    finished_at  INTEGER,
    reason       INTEGER
) STRICT;
-- What a claim looks at, and nothing else.
CREATE INDEX waiting ON deliveries (lane, priority, due_at, failed_probe) WHERE state = 0;
-- What is made to wait again at the start. Leases themselves are in memory: they are void then.
CREATE INDEX leased ON deliveries (id) WHERE state = 1;
CREATE INDEX expiring ON deliveries (expires_at) WHERE state = 0 AND expires_at IS NOT NULL;
CREATE INDEX dead_letters ON deliveries (tenant, id) WHERE state = 3;
CREATE INDEX all_dead_letters ON deliveries (id) WHERE state = 3;

CREATE TABLE attempts (
    delivery   INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    latency    INTEGER NOT NULL,        -- microseconds
    status     INTEGER,
    fault      TEXT,
    detail     TEXT,
    probe      INTEGER NOT NULL,
    response   BLOB,
    PRIMARY KEY (delivery, number)
) STRICT, WITHOUT ROWID;

-- The id is that of the batch's first event, so the oldest come first.
CREATE TABLE idempotency_keys (
    id          INTEGER PRIMARY KEY,
    tenant      INTEGER NOT NULL,
    key         TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    fan_outs    BLOB NOT NULL,          -- four bytes for each event, little end first
    UNIQUE (tenant, key)
) STRICT;

CREATE TABLE api_keys (
    id         INTEGER PRIMARY KEY,
    hash       BLOB NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    scopes     INTEGER NOT NULL,
    tenant     INTEGER REFERENCES tenants (row),  -- NULL: all
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;

CREATE TABLE circuits (
    key        TEXT PRIMARY KEY,
    record     TEXT NOT NULL,           -- JSON
    forget_at  INTEGER                  -- NULL: kept
) STRICT, WITHOUT ROWID;
CREATE INDEX forgettable ON circuits (forget_at) WHERE forget_at IS NOT NULL;

CREATE TABLE circuit_changes (
    key    TEXT NOT NULL,
    epoch  INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    change TEXT NOT NULL,               -- JSON
    PRIMARY KEY (key, epoch)
) STRICT, WITHOUT ROWID;
CREATE INDEX changes_by_time ON circuit_changes (at);

-- Background work, such as a resend.
CREATE TABLE jobs (
    id          INTEGER PRIMARY KEY,
    tenant      INTEGER,                -- NULL: all
    kind        TEXT NOT NULL,
    wanted      TEXT NOT NULL,          -- JSON
    by          INTEGER,                -- an API key
    position    INTEGER,                -- how far it came: the last delivery it looked at
    done        INTEGER NOT NULL,
    skipped     INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    finished_at INTEGER,
    cancelled   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX jobs_to_do ON jobs (id) WHERE finished_at IS NULL;
CREATE INDEX jobs_of_tenant ON jobs (tenant, id);
