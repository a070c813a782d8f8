-- One row for each circuit that ramps or has ramped lately: how many calls may be in flight, and which are. It belongs to one
-- epoch; a row of another epoch is as good as none.
--
-- Unlogged: after a crash the table is empty, and circuits that were ramping begin their ramp again.
CREATE UNLOGGED TABLE IF NOT EXISTS breakerbox.ramps (
    key            bytea    PRIMARY KEY,
    epoch          bigint   NOT NULL DEFAULT 0,
    -- How often the limit was replaced.
    step           bigint   NOT NULL DEFAULT 0,
    -- How many calls may be in flight; 0: the ramp is over.
    call_limit     bigint   NOT NULL DEFAULT 0,
    -- Calls that succeeded since the limit was last replaced.
    successes      bigint   NOT NULL DEFAULT 0,
    -- When a place was last refused, or else when the ramp began.
    refused_at     bigint   NOT NULL DEFAULT 0,
    -- The places: their tokens, and when they expire.
    places         bytea[]  NOT NULL DEFAULT '{}',
    places_expire  bigint[] NOT NULL DEFAULT '{}',
    -- From then on there is no ramp.
    expires_at     bigint   NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
