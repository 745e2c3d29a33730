-- Claims messages under a new lease, or takes over the lease of that id.
-- KEYS: 1 slot  2 ready  3 leases  4 lease  5 fence  6 delayed  7 waiters  8 wake  9 timer
--       10 settled, for an id that may be in use: chosen by the caller, or claimed before without an answer
--       11 done, for one chosen by the caller
-- ARGV: 1 seq  2 slot ttl ms  3 lease id  4 nonce  5 lease ms or 'inf'  6 max messages  7 owner  8 max deliveries or 0
--       9 ms to wait  10 server time in ms at which waiting ends, 0 in the first call of a claim  11 bell channel
-- Reply: {head, expired lease ids, envelopes in batches}; head is 'claimed <token> <deadline ms> <count> <limit> <failures>
--   <most>', 'taken <token> <deadline ms> <count> <failures> <most> <takeovers> <settled> <owner>', 'empty <ms to block>
--   <server time at which waiting ends>', 'settled <acked> ...', 'exhausted' or 'superseded'. Failures and most are 0
--   unless the messages are isolated. No envelopes in a takeover, nor when more than 4,000 messages are asked for, unless
--   they are isolated.
-- include: clock
-- include: replay
-- include: expired
-- include: hold
local earlier = replay()
if earlier then return {earlier, expired(KEYS[3], clock()), {}} end
local k = {ready = KEYS[2], leases = KEYS[3], lease = KEYS[4], fence = KEYS[5]}
local o = {id = ARGV[3], nonce = ARGV[4], lease_ms = ARGV[5], owner = ARGV[7]}
local now = string.format('%.0f', clock()) -- a number would be written out anew by each call that gets it
local late = expired(k.leases, now)
-- Messages for a new id, while nobody waits and nothing is delayed: answered before the rest below is even defined.
local plain = not KEYS[10] and redis.call('EXISTS', KEYS[4], KEYS[6], KEYS[7]) == 0 and redis.call('LLEN', k.ready) or 0
if plain > 0 and ARGV[6] == '1' then
  local reply, kept = hold_one(k, o, now)
  return {remember(reply), late, kept}
end
-- include: fitting
-- include: take
-- include: open_ready
o.max = tonumber(ARGV[6])
if plain > 0 then
  local reply, kept = open_ready(k, o, now, plain)
  return {remember(reply), late, kept}
end
-- include: head
-- include: ring
-- include: timer
-- include: mark
-- include: isolated
-- include: used_up
-- include: promote
-- include: open_lease
-- include: takeover
-- include: next_due
-- include: waiting
now = tonumber(now)
k.delayed, k.waiters, k.wake, k.timer, k.settled, k.bell = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], ARGV[11]
o.max_deliveries, o.waiter = tonumber(ARGV[8]), ARGV[9] ~= '0' and 'w' .. o.nonce or ''
local wait_end = tonumber(ARGV[10])
if wait_end == 0 then wait_end = now + tonumber(ARGV[9]) end
o.block = math.max(0, math.min(5000, wait_end - now))
local seen = awaited(k.waiters, k.wake, k.timer)
if k.settled and redis.call('EXISTS', k.lease) == 1 then
  if seen then -- refuses a wrong type before anything is written
    redis.call('LLEN', k.ready)
    redis.call('ZCARD', k.delayed)
  end
  local reply = take_over(k, o, now, true)
  if reply == 'exhausted' then return {refuse(reply), late, {}} end
  local timer_free = leave(k, o, seen)
  announce(k, now, seen, nil, timer_free)
  return {remember(reply), late, {}}
end
if redis.call('EXISTS', k.lease) == 1 then return {refuse('superseded'), late, {}} end -- its claim was sent once more, and granted
local done = KEYS[11] and redis.call('GET', KEYS[11])
if done then return {refuse('settled ' .. done), late, {}} end
local ready, isolated = promote(k.delayed, k.ready, now)
if seen and seen.paused then ready, isolated = 0, 0 end
if ready + isolated == 0 then
  local block = 0
  if o.block > 0 and #late == 0 then block = arm(k, o, now)
  else announce(k, now, seen, nil, leave(k, o, seen)) end
  if #late == 0 then return {refuse('empty ' .. block .. ' ' .. wait_end), late, {}} end
  refuse('empty 1 ' .. wait_end) -- a resend claims again and learns of the expired leases itself
  return {'empty 0 ' .. wait_end, late, {}}
end
local timer_free = leave(k, o, seen)
local reply, kept = open_lease(k, o, now, ready, isolated)
if o.lease_ms == 'inf' then announce(k, now, seen, nil, timer_free)
else announce(k, now, seen, now + tonumber(o.lease_ms), timer_free) end
return {remember(reply), late, kept}
