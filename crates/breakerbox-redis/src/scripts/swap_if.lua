-- swap_if: replaces a record if its version is still the expected one and the deadline has not passed, and publishes the
-- new record.
--
-- KEYS   the record, the window; the bucket's index of circuits, index by state, and expiries
-- ARGV   the circuit's key, the expected version ('' if there must be no record), the new version, epoch, status and record,
--        the deadline (us), the record's time to live (ms; '' forever), how long a run of failures is kept after its last
--        failure (us), the publish command, the channel, and the names of all states
-- answer the time (us), 'won', 'lost' or 'too_late', the current record ('' if there is none, or if won),
--        and some circuits in the bucket whose records may have expired
--
-- Versions and epochs are compared as strings: they do not fit into Lua's numbers.

local DUE_AT_ONCE = 16

local record, window, circuits, states, expiries = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local key, expected, version, epoch, status, new = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local not_after, keep_for, run_kept_for = tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9])
local publish, channel = ARGV[10], ARGV[11]

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now_ms = math.floor(now / 1000)
local now_text = string.format('%.0f', now)

local known = redis.call('HMGET', record, 'version', 'epoch', 'status', 'record')
if (known[1] or '') ~= expected then
  return { now_text, 'lost', known[4] or '' }
end
if now > not_after then
  return { now_text, 'too_late', known[4] or '' }
end

-- This comes first, because a server that is out of memory refuses it; then nothing has changed.
redis.call('HSET', record, 'version', version, 'epoch', epoch, 'status', status, 'record', new)
-- Counts belong to one epoch.
if (known[2] or '0') ~= epoch then
  redis.call('DEL', window)
end
if keep_for == '' then
  redis.call('PERSIST', record)
  redis.call('PERSIST', window)
  redis.call('ZREM', expiries, key)
else
  local until_ms = string.format('%.0f', now_ms + tonumber(keep_for))
  -- A run of failures in the same epoch keeps both for longer; 'F' ends with the time of its last failure.
  local last = string.match(redis.call('HGET', window, 'F') or '', '(%d+)$')
  if last then
    redis.call('HSET', window, 'E', until_ms)
    local forgotten_ms = math.ceil((tonumber(last) + run_kept_for) / 1000)
    until_ms = string.format('%.0f', math.max(tonumber(until_ms), forgotten_ms))
  end
  redis.call('PEXPIREAT', record, until_ms)
  redis.call('PEXPIREAT', window, until_ms)
  redis.call('ZADD', expiries, until_ms, key)
end

if not known[1] then
  -- An expired record may still be in the index, under any state.
  for i = 12, #ARGV do
    redis.call('ZREM', states, ARGV[i] .. ':' .. key)
  end
elseif known[3] ~= status then
  redis.call('ZREM', states, known[3] .. ':' .. key)
end
redis.call('ZADD', circuits, 0, key)
redis.call('ZADD', states, 0, status .. ':' .. key)

redis.call(publish, channel, #key .. ':' .. key .. new)

local answer = { now_text, 'won', '' }
local due = redis.call('ZRANGE', expiries, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, DUE_AT_ONCE)
for i = 1, #due do
  answer[3 + i] = due[i]
end
return answer
