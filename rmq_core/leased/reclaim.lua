-- Takes back the messages of a lease that has expired, whose deliveries are used up, or that an operator expires; its
-- holder is fenced off.
-- KEYS: slot  leases  lease  settled  ready  delayed  dead  failed  waiters  wake  fence
-- ARGV: seq  slot_ttl_ms  lease_id  token, of an earlier chunk, or ''  nonce  max_deliveries:number, or 0
--       max_dead:number, cap of the dead letters  failed_cap:number, of the failed log
--       breaker, of breaker.lua  channel, of notifications  reason, for the history  if_used_up, '1' to reclaim also when only the deliveries are used up, '2' to reclaim in any case
--       only_of?, the owner that must hold the lease; '' or without it, any owner
--       generation?, of a lease over several shards: a part that was taken over later stays
-- Reply: 'returned <count> <messages left in the lease> <token> [<dead ids>]' and what reported() adds, 'superseded', or
--   'live': the lease has not expired, was taken over after an earlier chunk, or no longer exists; 'owned <owner>'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: head
-- include: notify
-- include: used_up
-- include: give_back
-- include: failure
-- include: alone
-- include: untouched
local keys = {id = lease_id, leases = leases, lease = lease, settled = settled, ready = ready, delayed = delayed,
              dead = dead, failed = failed}
local head, now = head_of(lease), clock()
if not head then
  if if_used_up ~= '2' then redis.call('ZREM', leases, lease_id) end
  return refuse('live')
end
if only_of and only_of ~= '' and head.owner ~= only_of then return refuse('owned ' .. head.owner) end
if generation and tonumber(string.match(head.token, '%.(%d+)%-') or 0) > tonumber(generation) then return refuse('live') end
if token == '' then
  local deadline = tonumber(redis.call('ZSCORE', leases, lease_id) or '-inf')
  local first = redis.call('LINDEX', lease, 1)
  local spent = if_used_up == '1' and used_up(first, head.takeovers, redis.call('LLEN', lease) - 1, max_deliveries)
  if deadline > now and not spent and if_used_up ~= '2' then return refuse('live') end
elseif head.token ~= token then
  return refuse('live')
end
check_types(keys)
local seen = awaited(waiters, wake)
redis.call('PERSIST', leases)
-- Another client finishes what this one has begun only when the deadline is over.
if token == '' and if_used_up == '2' then redis.call('ZADD', leases, 'XX', 'LT', now, lease_id) end
local releasing = head.state == 'l' or head.state == 'r'
if token == '' then head.token = redis.call('INCRBY', fence, 2) .. '.' .. nonce end
local function failing(how)
  how.entry, how.now = table.concat({'expired', now, head.owner, reason}, '\t'), now
  how.max_deliveries, how.max_dead, how.failed_cap = max_deliveries, max_dead, failed_cap
  return how
end
local back, died, left = 0, {}, nil
if head.state == 'q' then -- its holder had the first unsettled message in work, and had not begun the others
  releasing = true
  local size, index = redis.call('LLEN', lease) - 1, redis.call('BITPOS', settled, 0)
  if index < size then
    redis.call('SETBIT', settled, index, 1)
    back, died = place({redis.call('LINDEX', lease, index + 1)}, keys, failing(alone_of(head, size)), {index})
  end
end
local how = releasing and untouched(head, lease) or failing(failure_of(head, lease, settled))
if token == '' then
  head.state = releasing and 'r' or 'x'
  redis.call('LSET', lease, 0, head_text(head))
end
-- A quarter of what release moves, because each envelope is rewritten.
local moved, dead_too
moved, dead_too, left = give_back(keys, 1000, how)
back = back + moved
for i = 1, #dead_too do died[#died + 1] = dead_too[i] end
if seen and back > 0 then notify(waiters, wake, channel, now, seen) end
return remember(reported(table.concat({'returned', back + #died, left, head.token, unpack(died)}, ' ')))
