SELECT count, bytes FROM reminder_totals WHERE tenant = $1
