UPDATE reminders SET last_at = $2, before_at = $2 WHERE id = $1
