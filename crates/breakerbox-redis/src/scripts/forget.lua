-- forget: removes circuits whose record has expired from the index. Redis itself deletes the expired records.
--
-- KEYS   the bucket's index of circuits, index by state, and expiries; then the records
-- ARGV   the circuits' keys, in the order of the records; then the names of all states
-- answer the number of circuits removed

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
    -- The circuit was used again meanwhile.
    redis.call('ZADD', expiries, expires, key)
  end
end
return forgotten
