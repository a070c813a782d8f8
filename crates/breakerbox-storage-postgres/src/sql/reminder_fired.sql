-- A reminder whose run was fired. $1: the reminder; $2: the run's number; $3: skipped occurrences; $4: what is done with; $5: the time
-- for which it was fired; $6: the delivery.
UPDATE reminders SET turn = turn + 1, runs = runs + 1, numbered = $2, skipped = skipped + $3, before_at = last_at, last_at = $4,
    ran_at = $5, open_run = $6, look_at = NULL, asked = 0
WHERE id = $1
