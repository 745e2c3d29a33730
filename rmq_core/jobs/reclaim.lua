-- Takes back the jobs of a lease that has expired, whose attempts are used up, or that an operator expires; its holder
-- is fenced off.
-- KEYS: slot  ready  delayed  later  dead  leases  heads  lease  events  alarm  fence  paused
-- ARGV: seq  slot_ttl_ms  lease_id  nonce  max_attempts:number  max_dead:number  breaker, of breaker.lua  group
--       events_cap:number
--       if_used_up, '1' to reclaim before the deadline
--       earlier_token, which the call for an earlier chunk returned, or ''  reason, for the history
--       only_of?, the owner that must hold the lease; without it, any owner
-- Reply: 'returned <count> <dead> <left> <token>' and what reported() adds, 'live' (not expired, taken over, or gone),
--   'owned <owner>' or 'superseded'.
-- include: clock
-- include: replay
-- include: jobs_entry
-- include: lease
-- include: back
local earlier = replay()
if earlier then return earlier end
local head, now = lease_head(heads, lease_id), clock()
local deadline = tonumber(redis.call('ZSCORE', leases, lease_id) or '-inf')
if not head then
  redis.call('ZREM', leases, lease_id)
  return refuse('live')
end
if only_of and head.owner ~= only_of then return refuse('owned ' .. head.owner) end
if earlier_token ~= '' and head.token ~= earlier_token then return refuse('live') end
if earlier_token == '' and if_used_up ~= '1' and deadline > now then return refuse('live') end
local k = {ready = ready, delayed = delayed, later = later, dead = dead, leases = leases, heads = heads, lease = lease,
           events = events, alarm = alarm}
check_job_types(k)
redis.call('PERSIST', heads) -- Redis allows this write at maxmemory and then every later one, so the queue can drain
if earlier_token == '' then
  head.token, head.returned = redis.call('INCR', fence) .. '.' .. nonce, head.returned + 1
  keep_head(heads, lease_id, head)
  redis.call('ZADD', leases, 'XX', math.min(deadline, now), lease_id)
end
local ids, envelopes = {}, {}
for i, entry in ipairs(redis.call('XRANGE', lease, '-', '+', 'COUNT', 1000)) do
  ids[i], envelopes[i] = entry[1], envelope_of(entry[2])
end
local line = table.concat({'expired', now, head.owner, reason}, '\t') .. '\n'
local how = {add = head.takeovers + 1, entry = line, limit = max_attempts, max_dead = max_dead, events = events_cap,
             now = now}
local _, buried = give_jobs_back(k, how, envelopes)
if #ids > 0 then redis.call('XDEL', lease, unpack(ids)) end
local left = redis.call('XLEN', lease)
if left == 0 then end_lease(k, lease_id) end
return remember(reported(table.concat({'returned', #ids, buried, left, head.token}, ' ')))
