DELETE FROM api_keys WHERE tenant = $1
