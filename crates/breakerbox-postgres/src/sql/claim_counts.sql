-- The second step of a swap: waits for whoever adds to the counts of the circuit $1 now, so that the third waits for nobody.
-- Merges lock no circuits, so the two can't wait for each other.
SELECT FROM breakerbox.counts AS k WHERE k.key = $1::bytea ORDER BY k.epoch FOR UPDATE;
