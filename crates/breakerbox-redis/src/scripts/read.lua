-- read: returns records.
--
-- KEYS   the records
-- answer the time (us), and each record ('' if there is none)

local time = redis.call('TIME')
local answer = { string.format('%.0f', tonumber(time[1]) * 1000000 + tonumber(time[2])) }
for i = 1, #KEYS do
  answer[i + 1] = redis.call('HGET', KEYS[i], 'record') or ''
end
return answer
