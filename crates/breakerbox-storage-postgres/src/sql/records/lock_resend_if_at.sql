-- Locks the resend job $1 if it is unfinished and came as far as $2.
SELECT 1 FROM jobs WHERE id = $1 AND finished_at IS NULL AND position IS NOT DISTINCT FROM $2 FOR UPDATE
