SELECT fan_out::bigint FROM events WHERE id = $1
