DELETE FROM last_attempts WHERE lane = $1
