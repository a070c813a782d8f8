UPDATE deliveries SET due_at = $2 WHERE id = $1 AND state = 0 RETURNING lane
