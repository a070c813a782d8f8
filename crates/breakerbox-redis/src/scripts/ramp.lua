-- ramp: releases slots in a circuit's ramp, replaces the ramp's limit, and acquires slots, unless the record has another
-- epoch.
--
-- KEYS   the record, the ramp
-- ARGV   the epoch, the first limit and the start time (us) of a ramp that does not exist yet, the time to live of a slot
--        (us) and of the ramp (ms), the expected step ('' if the limit is not to be replaced), the new limit ('0': the ramp
--        is over), the number of slots to release, for each its token and whether its call succeeded ('1' or '0'), then the
--        tokens of the slots to acquire
-- answer the time (us), 'late' or 'done', the step, the limit ('0': the ramp is over), the successes, the latest refusal
--        before this request (us), the number of slots in use, the number acquired now, whether the limit was replaced
--        ('1' or '0')
--
-- A ramp is a hash: 'epoch', 'step', 'limit', 'successes', 'refused_at', and a field for each slot, 'p:' and its token, with
-- the time at which the slot expires. A ramp from another epoch is ignored. The caller decides the next limit.

local record, ramp = KEYS[1], KEYS[2]
local epoch, first_limit, begun_at = ARGV[1], ARGV[2], ARGV[3]
local place_for, keep_for = tonumber(ARGV[4]), tonumber(ARGV[5])
local expected, next_limit, given = ARGV[6], ARGV[7], tonumber(ARGV[8])

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local function text(number)
  return string.format('%.0f', number)
end

if redis.call('HGET', record, 'epoch') ~= epoch then
  return { text(now), 'late' }
end

local held = {}
local fields = redis.call('HGETALL', ramp)
for n = 1, #fields, 2 do
  held[fields[n]] = fields[n + 1]
end
if held['epoch'] ~= epoch then
  if #fields > 0 then
    redis.call('DEL', ramp)
  end
  held = {}
end
local step = tonumber(held['step'] or '0')
local limit = tonumber(held['limit'] or first_limit)
local successes = tonumber(held['successes'] or '0')
local refused_at = held['refused_at'] or begun_at

local in_flight, gone, new = 0, {}, {}
local function drop(field)
  held[field] = nil
  gone[#gone + 1] = field
end
for field, expires in pairs(held) do
  if string.sub(field, 1, 2) == 'p:' then
    if tonumber(expires) <= now then
      drop(field)
    else
      in_flight = in_flight + 1
    end
  end
end
for n = 9, 7 + 2 * given, 2 do
  local field = 'p:' .. ARGV[n]
  if held[field] then
    drop(field)
    in_flight = in_flight - 1
    successes = successes + tonumber(ARGV[n + 1])
  end
end
local replaced = expected ~= '' and tonumber(expected) == step
if replaced then
  step, limit, successes = step + 1, tonumber(next_limit), 0
end
local refused_before, taken = refused_at, 0
if limit > 0 then
  for n = 9 + 2 * given, #ARGV do
    if in_flight < limit then
      in_flight, taken = in_flight + 1, taken + 1
      new[#new + 1] = 'p:' .. ARGV[n]
      new[#new + 1] = text(now + place_for)
    else
      refused_at = text(now)
    end
  end
end

redis.call(
  'HSET', ramp, 'epoch', epoch, 'step', text(step), 'limit', text(limit), 'successes', text(successes),
  'refused_at', refused_at, unpack(new)
)
if #gone > 0 then
  redis.call('HDEL', ramp, unpack(gone))
end
redis.call('PEXPIRE', ramp, text(keep_for))
return {
  text(now), 'done', text(step), text(limit), text(successes), refused_before, text(in_flight), text(taken),
  replaced and '1' or '0'
}
