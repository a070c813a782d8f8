-- Ends a reminder. $1: the reminder; $2, $3: its state, and why; $4: what is done with; $5: the time.
UPDATE reminders SET turn = turn + 1, state = $2, reason = $3, last_at = $4, look_at = NULL, asked = 0, open_run = NULL, ended_at = $5
WHERE id = $1 AND state = 0
