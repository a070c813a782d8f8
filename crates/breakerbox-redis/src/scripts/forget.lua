-- forget: takes circuits whose record has expired out of the index. Expiry itself is Redis's; this only tidies up after it.
--
-- KEYS   of the bucket: the index of circuits, the index by state, the expiries; then the records
-- ARGV   the circuits' keys, in the order of the records; then the names of all states
-- answer how many were forgotten

local circuits, states, expiries = KEYS[1], KEYS[2], KEYS[3]
local count = #KEYS - 3
local forgotten = 0
for i = 1, count do
  local record, key = KEYS[3 + i], ARGV[i]
  local expires = redis.call('PEXPIRETIME', record)
  if expires == -2 then
    redis.call('ZREM', circuits, key)
    redis.call('ZREM', expiries, key)
    for n = count + 1, #ARGV do
      redis.call('ZREM', states, ARGV[n] .. ':' .. key)
    end
    forgotten = forgotten + 1
  elseif expires == -1 then
    redis.call('ZREM', expiries, key)
  else
    -- It was used since.
    redis.call('ZADD', expiries, expires, key)
  end
end
return forgotten
