-- The tables. Times are microseconds since 1970, by the server's clock. Keys are bytes: text can't store every
-- character (it can't store NUL, and a database may have another encoding than UTF-8), and bytes sort the same
-- everywhere.

-- One row for each circuit that has a record. Only swaps write to it, so it changes as rarely as circuits do.
CREATE TABLE IF NOT EXISTS breakerbox.circuits (
    key        bytea   PRIMARY KEY,
    -- The token of the latest write. Null: the key was claimed for a swap that has not won.
    version    bytea,
    epoch      bigint  NOT NULL DEFAULT 0,
    status     text    COLLATE "C",
    -- The serialized record, JSON in UTF-8.
    record     bytea,
    -- The time at which the record expires; the maximum bigint means never. Counts with the same epoch keep it
    -- longer.
    expires_at bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 80);

CREATE INDEX IF NOT EXISTS circuits_by_status ON breakerbox.circuits (status, key) WHERE version IS NOT NULL;

-- One row for each window: the counts of a circuit in one epoch. A new epoch is a new row, so counts from an
-- old epoch can never get into it.
--
-- Unlogged: a merge then writes no WAL and does not wait for the disk. After a crash the table is empty, and
-- each circuit loses the counts in its current window.
--
-- Half of each page is left free, and no column that a merge changes is indexed: an update stays in its page,
-- and the next one removes the old row version, without vacuum.
CREATE UNLOGGED TABLE IF NOT EXISTS breakerbox.counts (
    key           bytea    NOT NULL,
    epoch         bigint   NOT NULL,
    merged_at     bigint   NOT NULL,
    -- The start of the oldest bucket that counted at the latest merge.
    since         bigint   NOT NULL,
    expires_at    bigint   NOT NULL,
    last_success  bigint,
    first_outcome bigint,
    -- The time of the first failure in the current run of failures.
    run_began     bigint,
    -- The buckets: their start times, and the counts in each. Latencies are in nanoseconds.
    begins        bigint[] NOT NULL,
    successes     bigint[] NOT NULL,
    failures      bigint[] NOT NULL,
    slow          bigint[] NOT NULL,
    latency_sum   bigint[] NOT NULL,
    run           bigint[] NOT NULL,
    PRIMARY KEY (key, epoch)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- One row for each leader election that has a leader.
CREATE TABLE IF NOT EXISTS breakerbox.leases (
    name    bytea  PRIMARY KEY,
    holder  bytea  NOT NULL,
    ends_at bigint NOT NULL
) WITH (fillfactor = 50);
