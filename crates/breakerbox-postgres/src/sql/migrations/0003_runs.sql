-- The run of failures: the failures after the latest success, in the window or before it. The columns run_began and run
-- are from an earlier version, which kept only the part of the run that is in the window.
ALTER TABLE breakerbox.counts
    -- The number of failures; 0: there is no run.
    ADD COLUMN IF NOT EXISTS run_count  bigint NOT NULL DEFAULT 0,
    -- The times of the first and the last failure.
    ADD COLUMN IF NOT EXISTS run_first  bigint,
    ADD COLUMN IF NOT EXISTS run_last   bigint,
    -- The time at which the row expires once it has no run. Null: as expires_at says.
    ADD COLUMN IF NOT EXISTS keep_until bigint;
