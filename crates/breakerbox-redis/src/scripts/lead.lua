-- lead: acquires or renews a leader's term, unless another candidate leads. A term of length zero releases the
-- candidate's own term.
--
-- KEYS   the term
-- ARGV   the candidate, the length of the term (us)
-- answer the time (us), whether the candidate leads ('1' or '0'), when the current leader's term ends (us)

local term = KEYS[1]
local candidate, ttl = ARGV[1], tonumber(ARGV[2])

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now_text = string.format('%.0f', now)

local known = redis.call('HMGET', term, 'leader', 'ends_at')
if known[1] and known[1] ~= candidate and now < tonumber(known[2]) then
  return { now_text, '0', known[2] }
end
if ttl == 0 then
  redis.call('DEL', term)
  return { now_text, '0', now_text }
end
local ends_at = string.format('%.0f', now + ttl)
redis.call('HSET', term, 'leader', candidate, 'ends_at', ends_at)
-- Rounded up, so that the key does not expire before the term ends.
redis.call('PEXPIREAT', term, string.format('%.0f', math.ceil((now + ttl) / 1000)))
return { now_text, '1', ends_at }
