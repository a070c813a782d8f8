-- merge: adds one process's counts to the shared windows. Counts from another epoch are late, and not added.
--
-- KEYS   for each delta: the record, the window
-- ARGV   how long a run of failures is kept after its last failure (us); then for each delta: epoch, bucket width (us), time to
--        live of the counts (ms), age of the latest success (us or ''), number of failures after it, ages of the first and the
--        last of these (us), number of buckets, and for each bucket, oldest first: its age (us), successes, failures, slow
--        calls, sum of latencies (us)
-- answer the time (us), and for each delta: late ('1' or '0'), the counts of every bucket in the window, the number of
--        failures in the run, the latest success (us or ''), the first failure after it (us or ''), the record ('' if there is
--        none)
--
-- A window is a hash. 'S' is the latest success. 'F' is the run of failures after it: their number, the first and the last. 'E'
-- is the time (ms) at which the window expires once it has no run. Every field whose name is a number is a bucket: its name is
-- the bucket's start time, its value the four counts, and a zero: earlier versions kept a part of the run there. Fields with
-- other names are from other versions. The arithmetic is that of the memory store's window; the caller adds up the buckets. One
-- field per bucket instead of one per count, and no sums here, take half the memory and a third of the server's time.
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

local run_kept_for = tonumber(ARGV[1])
local answer = { text(now) }
local at = 2
for i = 1, #KEYS, 2 do
  local record, window = KEYS[i], KEYS[i + 1]
  local epoch, width, keep_for = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local success, failed, count = ago(ARGV[at + 3]), tonumber(ARGV[at + 4]), tonumber(ARGV[at + 7])
  local failed_first, failed_last = ago(ARGV[at + 5]), ago(ARGV[at + 6])
  local first = at + 8
  at = first + 5 * count

  local known = redis.call('HMGET', record, 'epoch', 'record')
  local late = (known[1] or '0') ~= epoch
  local expires = redis.call('PEXPIRETIME', known[1] and record or window)
  local oldest = math.max(math.floor(now / width) - (BUCKETS - 1), 0) * width

  local fields = redis.call('HGETALL', window)
  local last_success, run, expires_without_run
  local buckets, touched, gone = {}, {}, {}
  for n = 1, #fields, 2 do
    local field, value = fields[n], fields[n + 1]
    if field == 'S' then
      last_success = tonumber(value)
    elseif field == 'F' then
      local failures, began, last = string.match(value, '^(%d+) (%d+) (%d+)$')
      run = failures and { count = tonumber(failures), began = tonumber(began), last = tonumber(last) }
    elseif field == 'E' then
      expires_without_run = tonumber(value)
    else
      local begins = tonumber(field)
      if begins and begins < oldest then
        gone[#gone + 1] = field
      elseif begins then
        buckets[field] = value
      end
    end
  end

  -- A process with an earlier version may have added a success without ending the run.
  local stored_run = run
  local function is_over(run)
    return now - run.last >= run_kept_for or last_success and run.began <= last_success
  end
  if run and is_over(run) then
    run = nil
  end

  if not late then
    local new = {}
    local function write(field, value)
      new[#new + 1] = field
      new[#new + 1] = value
    end

    if success and (not last_success or success > last_success) then
      last_success = success
      write('S', text(success))
      -- A success ends the run of failures, unless the whole run is later.
      if run and is_over(run) then
        run = nil
      end
    end
    local more = failed > 0 and { count = failed, began = failed_first, last = failed_last }
    if more and not is_over(more) then
      if run then
        more.count = sum(run.count, more.count)
        more.began, more.last = math.min(run.began, more.began), math.max(run.last, more.last)
      end
      run = more
      write('F', string.format('%.0f %.0f %.0f', run.count, run.began, run.last))
    elseif stored_run and not run then
      gone[#gone + 1] = 'F'
    end
    for b = first, at - 1, 5 do
      local moment = ago(ARGV[b])
      local begins = moment - moment % width
      if begins >= oldest then
        local field = text(begins)
        local s, f, w, l = string.match(buckets[field] or '0 0 0 0', '(%d+) (%d+) (%d+) (%d+)')
        s, f, w, l = sum(s, ARGV[b + 1]), sum(f, ARGV[b + 2]), sum(w, ARGV[b + 3]), sum(l, ARGV[b + 4])
        buckets[field] = string.format('%.0f %.0f %.0f %.0f 0', s, f, w, l)
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

  -- A record that never expires keeps its window. Otherwise both are kept as long as there are calls, and as long as there is
  -- a run of failures.
  local stays = known[1] and expires == -1
  if not stays and (known[1] or #fields > 0 or not late) then
    local until_ms = math.max(now_ms + keep_for, expires_without_run or expires)
    if run then
      redis.call('HSET', window, 'E', text(until_ms))
      until_ms = math.max(until_ms, math.ceil((run.last + run_kept_for) / 1000))
    elseif expires_without_run then
      redis.call('HDEL', window, 'E')
    end
    redis.call('PEXPIREAT', window, text(until_ms))
    if known[1] then
      redis.call('PEXPIREAT', record, text(until_ms))
    end
  end

  local counts = {}
  for _, value in pairs(buckets) do
    counts[#counts + 1] = value
  end
  local n = #answer
  answer[n + 1] = late and '1' or '0'
  answer[n + 2] = table.concat(counts, ' ')
  answer[n + 3] = text(run and run.count or 0)
  answer[n + 4] = last_success and text(last_success) or ''
  answer[n + 5] = run and text(run.began) or ''
  answer[n + 6] = known[2] or ''
end
return answer
