-- Stops a reminder that can't be read. Its reference is free again. $1: the reminder; $2: the reason; $3: the time.
UPDATE reminders SET turn = turn + 1, state = 2, reason = $2, reference = NULL, look_at = NULL, asked = 0, open_run = NULL,
    ended_at = $3
WHERE id = $1
