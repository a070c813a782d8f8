-- The tables. Times are microseconds since 1970, by the server's clock. Keys are bytes: text can't hold every character
-- (none holds NUL, and a database may have another encoding than UTF-8), and bytes sort the same everywhere.

-- One row for each circuit that has a record. Written by swaps alone, so it changes as rarely as circuits do.
CREATE TABLE IF NOT EXISTS breakerbox.circuits (
    key        bytea   PRIMARY KEY,
    -- The token of the latest write; null: somebody claimed the key for a swap that has not won.
    version    bytea,
    epoch      bigint  NOT NULL DEFAULT 0,
    status     text    COLLATE "C",
    -- The record's written form, JSON in UTF-8.
    record     bytea,
    -- From then on there is no record; the greatest bigint: never. Counts of the same epoch keep it longer.
    expires_at bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 80);

CREATE INDEX IF NOT EXISTS circuits_by_status ON breakerbox.circuits (status, key) WHERE version IS NOT NULL;

-- One row for each window: the counts of a circuit in one epoch. A new epoch is a new row, so counts of an old one can't
-- get into it, whoever adds them and whenever.
--
-- Unlogged: a merge then writes no log and waits for no disk. After a crash the table is empty, which costs a circuit what
-- it counted in the last window.
--
-- Half of each page is left free, and nothing that a merge changes is in an index: an update stays in its page, and what it
-- leaves behind is cleared by the next one, without vacuum.
CREATE UNLOGGED TABLE IF NOT EXISTS breakerbox.counts (
    key           bytea    NOT NULL,
    epoch         bigint   NOT NULL,
    merged_at     bigint   NOT NULL,
    -- When the oldest bucket that counted at the latest merge begins.
    since         bigint   NOT NULL,
    expires_at    bigint   NOT NULL,
    last_success  bigint,
    first_outcome bigint,
    -- When the first failure of the run was.
    run_began     bigint,
    -- The buckets: when they begin, and what was counted in each. Latencies are in nanoseconds.
    begins        bigint[] NOT NULL,
    successes     bigint[] NOT NULL,
    failures      bigint[] NOT NULL,
    slow          bigint[] NOT NULL,
    latency_sum   bigint[] NOT NULL,
    run           bigint[] NOT NULL,
    PRIMARY KEY (key, epoch)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- One row for each office that has a leader.
CREATE TABLE IF NOT EXISTS breakerbox.leases (
    name    bytea  PRIMARY KEY,
    holder  bytea  NOT NULL,
    ends_at bigint NOT NULL
) WITH (fillfactor = 50);
