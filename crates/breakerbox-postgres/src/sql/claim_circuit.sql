-- The first step of a swap: makes sure that the circuit $1 has a row, and locks it, waiting for whoever swaps it now.
-- The condition is never true; a row that conflicts is locked all the same.
INSERT INTO breakerbox.circuits AS c (key) VALUES ($1::bytea)
ON CONFLICT (key) DO UPDATE SET expires_at = c.expires_at WHERE false;
