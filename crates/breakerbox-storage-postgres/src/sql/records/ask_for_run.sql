UPDATE reminders SET turn = turn + 1, look_at = 0, asked = $2 WHERE id = $1
