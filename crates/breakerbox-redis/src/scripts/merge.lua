-- merge: adds one process's counts to the shared windows. Counts from another epoch are late, and not added.
--
-- KEYS   for each delta: the record, the window
-- ARGV   for each delta: epoch, bucket width (us), time to live of the counts (ms), age of the latest success (us or ''),
--        age of the first failure after it (us or ''), number of buckets, and for each bucket, oldest first: its age (us),
--        successes, failures, slow calls, sum of latencies (us), failures after the latest success
-- answer the time (us), and for each delta: late ('1' or '0'), the counts of every bucket in the window, the latest
--        success (us or ''), the first of the consecutive failures after it (us or ''), the record ('' if there is none)
--
-- A window is a hash. 'S' is the latest success, 'R' the first failure of the run of failures after it. Every field whose
-- name is a number is a bucket: its name is the bucket's start time, its value the five counts. Fields with other names are
-- from other versions. The arithmetic is that of the memory store's window; the caller adds up the buckets. One field per
-- bucket instead of one per count, and no sums here, take half the memory and a third of the server's time.
--
-- Numbers are doubles, exact up to 2^53. Times stay below that for 250 years. Counts are capped there.

local BUCKETS = 10
local MOST = 9007199254740991

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now_ms = math.floor(now / 1000)

local function text(number)
  return string.format('%.0f', number)
end

-- Converts an age to a time; '' becomes nil.
local function ago(age)
  return age ~= '' and math.max(now - tonumber(age), 0) or nil
end

local function sum(a, b)
  return math.min(tonumber(a) + tonumber(b), MOST)
end

local answer = { text(now) }
local at = 1
for i = 1, #KEYS, 2 do
  local record, window = KEYS[i], KEYS[i + 1]
  local epoch, width, keep_for = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local success, run_began, count = ago(ARGV[at + 3]), ago(ARGV[at + 4]), tonumber(ARGV[at + 5])
  local first = at + 6
  at = first + 6 * count

  local known = redis.call('HMGET', record, 'epoch', 'record')
  local late = (known[1] or '0') ~= epoch
  local expires = redis.call('PEXPIRETIME', known[1] and record or window)
  local oldest = math.max(math.floor(now / width) - (BUCKETS - 1), 0) * width

  local fields = redis.call('HGETALL', window)
  local last_success, run
  local buckets, touched, gone = {}, {}, {}
  for n = 1, #fields, 2 do
    local field, value = fields[n], fields[n + 1]
    if field == 'S' then
      last_success = tonumber(value)
    elseif field == 'R' then
      run = tonumber(value)
    else
      local begins = tonumber(field)
      if begins and begins < oldest then
        gone[#gone + 1] = field
      elseif begins then
        buckets[field] = value
      end
    end
  end

  if not late then
    local new = {}
    local function write(field, value)
      new[#new + 1] = field
      new[#new + 1] = value
    end

    local ends = success and (not last_success or success > last_success)
    if ends then
      last_success = success
      write('S', text(success))
      -- A success ends the run of failures, unless the whole run is later.
      ends = run and run <= success
      if ends then
        run = nil
        for field, value in pairs(buckets) do
          buckets[field] = string.match(value, '^(.*) %d+$') .. ' 0'
          touched[field] = true
        end
      end
    end
    local extends = run_began and (not last_success or run_began > last_success)
    if extends and (not run or run_began < run) then
      run = run_began
      write('R', text(run))
    elseif ends then
      gone[#gone + 1] = 'R'
    end
    for b = first, at - 1, 6 do
      local moment = ago(ARGV[b])
      local begins = moment - moment % width
      if begins >= oldest then
        local field = text(begins)
        local s, f, w, l, r = string.match(buckets[field] or '0 0 0 0 0', '(%d+) (%d+) (%d+) (%d+) (%d+)')
        local more = extends and ARGV[b + 5] or 0
        s, f, w = sum(s, ARGV[b + 1]), sum(f, ARGV[b + 2]), sum(w, ARGV[b + 3])
        buckets[field] = string.format('%.0f %.0f %.0f %.0f %.0f', s, f, w, sum(l, ARGV[b + 4]), sum(r, more))
        touched[field] = true
      end
    end
    for field in pairs(touched) do
      write(field, buckets[field])
    end
    if #new > 0 then
      redis.call('HSET', window, unpack(new))
    end
    if #gone > 0 then
      redis.call('HDEL', window, unpack(gone))
    end
  end

  -- A record that never expires keeps its window. Otherwise both are kept as long as there are calls.
  local stays = known[1] and expires == -1
  if not stays and (known[1] or #fields > 0 or not late) then
    local until_ms = text(math.max(now_ms + keep_for, expires))
    redis.call('PEXPIREAT', window, until_ms)
    if known[1] then
      redis.call('PEXPIREAT', record, until_ms)
    end
  end

  local counts = {}
  for _, value in pairs(buckets) do
    counts[#counts + 1] = value
  end
  local n = #answer
  answer[n + 1] = late and '1' or '0'
  answer[n + 2] = table.concat(counts, ' ')
  answer[n + 3] = last_success and text(last_success) or ''
  answer[n + 4] = run and text(run) or ''
  answer[n + 5] = known[2] or ''
end
return answer
