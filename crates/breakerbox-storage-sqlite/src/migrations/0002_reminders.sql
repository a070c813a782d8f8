-- Reminders. A run of one is an event with one delivery, so that it goes through the same lanes, gates and attempts.

-- state: 0 active, 1 paused, 2 stopped, 3 finished, 4 cancelled
-- reason of a stopped one: 0 rejected, 1 gone, 2 failed
-- asked: 0 nothing, 1 to go on after a pause, 2 to run now
CREATE TABLE reminders (
    id         INTEGER PRIMARY KEY,
    tenant     INTEGER NOT NULL REFERENCES tenants (row),
    reference  TEXT,                    -- the owner's own name for it
    settings   TEXT NOT NULL,           -- JSON
    size       INTEGER NOT NULL,        -- of the payload
    state      INTEGER NOT NULL,
    reason     INTEGER,
    asked      INTEGER NOT NULL,
    turn       INTEGER NOT NULL,        -- grows with every step and change: who decided by an older one decided too early
    runs       INTEGER NOT NULL,        -- fired
    numbered   INTEGER NOT NULL,        -- the highest number of a run that anybody may have heard of
    skipped    INTEGER NOT NULL,        -- occurrences that were not
    ran_at     INTEGER,                 -- the time for which the latest run was fired
    last_at    INTEGER,                 -- this occurrence and all before it are done with
    before_at  INTEGER,                 -- the same before the latest run
    open_run   INTEGER,                 -- the delivery of the run that is not finished
    look_at    INTEGER,                 -- by the wall clock: when to decide what comes next; 0: at once; NULL: never
    revision   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    ended_at   INTEGER                  -- since when it is stopped, finished or cancelled
) STRICT;
-- What the scheduler looks at, and nothing else.
CREATE INDEX reminders_to_look_at ON reminders (look_at) WHERE look_at IS NOT NULL;
CREATE INDEX reminders_of_tenant ON reminders (tenant, id);
-- Whoever cancels one may use its name again.
CREATE UNIQUE INDEX reminder_references ON reminders (tenant, reference) WHERE reference IS NOT NULL AND state <> 4;
CREATE INDEX reminders_by_reference ON reminders (tenant, reference, id) WHERE reference IS NOT NULL;
CREATE INDEX ended_reminders ON reminders (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE reminder_payloads (
    reminder INTEGER PRIMARY KEY,
    payload  BLOB NOT NULL
) STRICT;

-- Reminders that are active, paused or stopped, for limits.
CREATE TABLE reminder_totals (
    tenant INTEGER PRIMARY KEY,
    count  INTEGER NOT NULL,
    bytes  INTEGER NOT NULL
) STRICT;

-- Of an event that is a run.
ALTER TABLE events ADD COLUMN reminder INTEGER;
ALTER TABLE events ADD COLUMN run INTEGER;
ALTER TABLE events ADD COLUMN scheduled_at INTEGER;
ALTER TABLE events ADD COLUMN skipped INTEGER;
ALTER TABLE events ADD COLUMN latest INTEGER;   -- 1: until it is sent it stands for the latest occurrence
CREATE INDEX runs ON events (reminder, id) WHERE reminder IS NOT NULL;
