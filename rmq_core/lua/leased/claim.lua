-- Claims messages under a new lease, or takes over the lease of that id.
-- KEYS: 1 slot  2 ready  3 leases  4 lease  5 fence  6 delayed  7 waiters  8 wake  9 timer  10 done  11 settled
-- ARGV: 1 seq  2 slot ttl ms  3 lease id  4 'new' id, 'again' after a lost reply or 'named' by the caller  5 nonce  6 lease ms or 'inf'
--       7 max messages  8 '1' to return the envelopes  9 owner  10 max deliveries or 0  11 waiter or ''
--       12 ms to wait  13 server time in ms at which waiting ends, 0 in the first call of a claim  14 bell channel
-- Reply: {head, expired lease ids, envelopes}; head is 'claimed|taken <token> <deadline ms> <count> <limit> <takeovers>
--   <settled> [<owner>]', 'empty <ms to block> <server time at which waiting ends>', 'settled <acked> ...', 'exhausted' or 'superseded'.
-- include: clock
-- include: replay
-- include: head
-- include: ring
-- include: timer
-- include: deliveries
-- include: promote
-- include: take
-- include: claim
local earlier = replay()
if earlier then return {earlier, expired(KEYS[3], clock()), {}} end
local k = {ready = KEYS[2], leases = KEYS[3], lease = KEYS[4], fence = KEYS[5], delayed = KEYS[6], waiters = KEYS[7],
           wake = KEYS[8], timer = KEYS[9], settled = KEYS[11], bell = ARGV[14]}
local o = {id = ARGV[3], nonce = ARGV[5], lease_ms = ARGV[6], max = tonumber(ARGV[7]), keep = ARGV[8] == '1',
           owner = ARGV[9], max_deliveries = tonumber(ARGV[10]), waiter = ARGV[11]}
local now, wait_end = clock(), tonumber(ARGV[13])
if wait_end == 0 then wait_end = now + tonumber(ARGV[12]) end
o.block = math.max(0, math.min(5000, wait_end - now))
local seen = awaited(k.waiters, k.wake, k.timer)
local late = expired(k.leases, now)
if ARGV[4] ~= 'new' and redis.call('EXISTS', k.lease) == 1 then
  if seen then redis.call('LLEN', k.ready) end -- refuses a wrong type before anything is written
  local reply = take_over(k, o, now, true)
  if reply == 'exhausted' then return {refuse(reply), late, {}} end
  local timer_free = leave(k, o, seen)
  announce(k, now, seen, nil, timer_free)
  return {remember(reply), late, {}}
end
if ARGV[4] == 'named' then
  local done = redis.call('GET', KEYS[10])
  if done then return {refuse('settled ' .. done), late, {}} end
end
local oldest = redis.call('LINDEX', k.ready, -1)
if promote(k.delayed, k.ready, now) > 0 then oldest = redis.call('LINDEX', k.ready, -1) end
if seen and seen.paused then oldest = nil end
if not oldest then
  local block = 0
  if o.block > 0 and #late == 0 then block = arm(k, o, now)
  else announce(k, now, seen, nil, leave(k, o, seen)) end
  if #late == 0 then return {refuse('empty ' .. block .. ' ' .. wait_end), late, {}} end
  refuse('empty 1 ' .. wait_end) -- a resend claims again and learns of the expired leases itself
  return {'empty 0 ' .. wait_end, late, {}}
end
local timer_free = leave(k, o, seen)
local reply, kept = open_lease(k, o, now, oldest)
if o.lease_ms == 'inf' then announce(k, now, seen, nil, timer_free)
else announce(k, now, seen, now + tonumber(o.lease_ms), timer_free) end
remember(reply)
return {reply, late, o.keep and kept or {}}
