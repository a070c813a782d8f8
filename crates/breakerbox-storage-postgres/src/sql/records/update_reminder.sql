UPDATE reminders SET reference = $2, settings = $3, size = $4, revision = $5, changed_at = $6, turn = turn + 1 WHERE id = $1
