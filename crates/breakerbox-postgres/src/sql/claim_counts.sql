-- The second step of a swap: waits for concurrent merges into the counts of the circuit $1, so that the third
-- step does not have to wait. Merges do not lock circuits, so the two can't deadlock.
SELECT FROM breakerbox.counts AS k WHERE k.key = $1::bytea ORDER BY k.epoch FOR UPDATE;
