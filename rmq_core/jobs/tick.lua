-- Makes jobs ready whose delay is over, and reports what else is due. Any client may run it at any time.
-- KEYS: ready  delayed  later  events  repeats  leases
-- ARGV: events_cap:number
-- Reply: {now ms, next due ms or '', how many were promoted, expired leases, {key, due ms} of each rule that is due}.
-- include: clock
-- include: jobs_entry
-- include: later
local now = clock()
redis.call('PERSIST', delayed) -- Redis allows this write at maxmemory and then every later one, so the queue can drain
local ids = promote_jobs(delayed, later, ready, now)
tell(events, events_cap, 'waiting', ids)
local late = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 16)
local fire, flat = redis.call('ZRANGEBYSCORE', repeats, '-inf', now, 'WITHSCORES', 'LIMIT', 0, 100), {}
for i = 1, #fire, 2 do flat[#flat + 1] = {fire[i], fire[i + 1]} end
local due = math.huge
for _, key in ipairs({delayed, repeats, leases}) do
  due = math.min(due, tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) or math.huge)
end
return {now, due < math.huge and string.format('%.0f', due) or '', #ids, late, flat}
