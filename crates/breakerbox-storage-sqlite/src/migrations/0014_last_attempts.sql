-- The latest attempt in each lane, for people. A row is written with a settlement only if the status or the fault has changed, or
-- if the row is ten minutes old, so that a lane that keeps getting the same response writes nothing more.
CREATE TABLE last_attempts (
    lane       INTEGER PRIMARY KEY,
    started_at INTEGER NOT NULL,
    status     INTEGER,                 -- NULL: there was no response
    fault      TEXT,                    -- why there was none
    detail     TEXT
) STRICT;
