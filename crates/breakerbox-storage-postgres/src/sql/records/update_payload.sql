UPDATE payloads SET payload = $2 WHERE event = $1
