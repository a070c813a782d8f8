-- check_write: writes a key that is not part of a circuit, with the same commands as the other scripts. Whatever
-- prevents those from writing (no memory, a replica, missing permissions) makes this script fail as well.
--
-- KEYS   the key
-- ARGV   the key's time to live (ms)
-- answer the time (us)

local key, keep_for = KEYS[1], tonumber(ARGV[1])

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local text = string.format('%.0f', now)
redis.call('HSET', key, 'checked_at', text)
redis.call('PEXPIREAT', key, string.format('%.0f', math.floor(now / 1000) + keep_for))
return { text }
