SELECT 1 FROM all_deliveries WHERE id = $1
