-- When the next reminder has to be checked.
SELECT look_at FROM reminders WHERE look_at IS NOT NULL ORDER BY look_at LIMIT 1
