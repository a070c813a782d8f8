UPDATE reminder_payloads SET payload = $2 WHERE reminder = $1
