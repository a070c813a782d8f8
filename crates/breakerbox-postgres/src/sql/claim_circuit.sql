-- The first step of a swap: makes sure that the circuit $1 has a row, and locks it, waiting for any concurrent
-- swap. The condition is never true, but a conflicting row is locked nevertheless.
INSERT INTO breakerbox.circuits AS c (key) VALUES ($1::bytea)
ON CONFLICT (key) DO UPDATE SET expires_at = c.expires_at WHERE false;
