-- One row for each circuit that ramps or has recently ramped: the maximum number of calls in flight, and the
-- calls that are. A row belongs to one epoch; a row from another epoch is ignored.
--
-- Unlogged: after a crash the table is empty, and circuits that were ramping start their ramp again.
CREATE UNLOGGED TABLE IF NOT EXISTS breakerbox.ramps (
    key            bytea    PRIMARY KEY,
    epoch          bigint   NOT NULL DEFAULT 0,
    -- How often the limit was replaced.
    step           bigint   NOT NULL DEFAULT 0,
    -- The maximum number of calls in flight; 0: the ramp is over.
    call_limit     bigint   NOT NULL DEFAULT 0,
    -- The number of calls that succeeded since the limit was last replaced.
    successes      bigint   NOT NULL DEFAULT 0,
    -- The time at which a slot was last refused, or else at which the ramp started.
    refused_at     bigint   NOT NULL DEFAULT 0,
    -- The slots in use: their tokens, and their expiry times.
    places         bytea[]  NOT NULL DEFAULT '{}',
    places_expire  bigint[] NOT NULL DEFAULT '{}',
    -- The time at which the ramp expires.
    expires_at     bigint   NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
