-- The first step of a ramp request: makes sure that the circuit $1 has a row, and locks it, waiting for any
-- concurrent request. The condition is never true, but a conflicting row is locked nevertheless.
INSERT INTO breakerbox.ramps AS r (key) VALUES ($1::bytea)
ON CONFLICT (key) DO UPDATE SET expires_at = r.expires_at WHERE false;
