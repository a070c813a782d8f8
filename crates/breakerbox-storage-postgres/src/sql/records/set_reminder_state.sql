UPDATE reminders SET turn = turn + 1, state = $2, reason = NULL, look_at = $3, asked = $4, ended_at = $5, revision = $6,
    changed_at = $7
WHERE id = $1
