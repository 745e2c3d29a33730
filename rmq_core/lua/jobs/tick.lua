-- Makes jobs whose delay is over ready, and tells what else is due. Anybody may run it, at any time.
-- KEYS: 1 ready  2 delayed  3 later  4 events  5 repeats  6 leases
-- ARGV: 1 events cap
-- Reply: {now ms, next due ms or '', how many were promoted, leases that expired, {key, due ms} of each rule that fires}.
-- include: clock
-- include: jobs_entry
-- include: jobs_alarm
-- include: jobs_later
local now = clock()
redis.call('PERSIST', KEYS[2]) -- a full server denies no first write of this kind, and so drains
local ids = promote_jobs(KEYS[2], KEYS[3], KEYS[1], now)
tell(KEYS[4], tonumber(ARGV[1]), 'waiting', ids)
local late = redis.call('ZRANGEBYSCORE', KEYS[6], '-inf', now, 'LIMIT', 0, 16)
local fire, flat = redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', now, 'WITHSCORES', 'LIMIT', 0, 100), {}
for i = 1, #fire, 2 do flat[#flat + 1] = {fire[i], fire[i + 1]} end
local due = math.huge
for _, key in ipairs({KEYS[2], KEYS[5], KEYS[6]}) do
  due = math.min(due, tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) or math.huge)
end
return {now, due < math.huge and string.format('%.0f', due) or '', #ids, late, flat}
