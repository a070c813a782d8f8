UPDATE events SET url = $2, content_type = $3, priority = $4, size = $5 WHERE id = $1
