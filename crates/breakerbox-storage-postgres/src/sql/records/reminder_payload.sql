SELECT payload FROM reminder_payloads WHERE reminder = $1
