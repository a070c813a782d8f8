UPDATE reminders SET look_at = 0 WHERE id = $1
