-- Claims messages under a new lease, or takes over the lease of that id.
-- KEYS: slot  ready  leases  lease  fence  delayed  waiters  wake  timer
--       settled?, for an id that may be in use: chosen by the caller, or claimed before without a reply
--       done?, for one chosen by the caller
-- ARGV: seq  slot_ttl_ms  lease_id  nonce  lease_ms, or 'inf'  max_messages  owner  max_deliveries, or 0  wait_ms
--       wait_end, server time in ms at which waiting ends, 0 in the first call of a claim  channel, of notifications
--       from_groups?, groups to claim from, joined by zero bytes
-- Reply: {head, expired lease ids, envelopes in batches}; head is
--   'claimed <token> <deadline ms> <count> <limit> <failures> <most>',
--   'taken <token> <deadline ms> <count> <failures> <most> <takeovers> <settled> <owner>',
--   'empty <ms to block> <server time at which waiting ends>', and ' token' if nothing can be claimed earlier, or
--   ' <now ms> <last entry of `news`>' for a claim from some groups, 'settled <acked> ...', 'exhausted', 'outdated', 'ungrouped' (the
--   queue lets nobody claim from some groups) or 'superseded'.
--   Failures and most are 0 unless the messages are isolated. A takeover returns no envelopes, and neither does a claim
--   of 100 or more messages.
-- include: clock
-- include: replay
-- include: list_expired
local earlier = replay()
if earlier then return {earlier, expired(leases, clock()), {}} end
-- include: hold_quickly
local k = {ready = ready, leases = leases, lease = lease, fence = fence}
local o = {id = lease_id, nonce = nonce, lease_ms = lease_ms, owner = owner}
local now = string.format('%.0f', clock()) -- text, because each call would convert a number again
local late = expired(leases, now)
-- Fast path: there are messages for a new id, no waiters and no delayed messages. It returns before the includes below
-- are defined and before numbers are converted, because it needs none.
local plain = not settled and redis.call('EXISTS', lease, delayed, waiters) == 0
if plain and max_messages == '1' then
  local reply, kept = hold_quickly(k, o, now, from_groups)
  if reply then return {remember(reply), late, kept} end
end
-- include: ready
-- include: open_ready
o.max, o.chosen = tonumber(max_messages), from_groups and lines_of(from_groups)
if from_groups and not o.chosen then return {refuse('ungrouped'), late, {}} end
local claimable = plain and claimable_at(now, o.chosen) or 0
if claimable > 0 then
  local reply, kept = open_ready(k, o, now, claimable)
  return {remember(reply), late, kept}
end
-- include: notify
-- include: promote
-- include: open_lease
-- include: takeover
-- include: waiting
now, wait_end = tonumber(now), tonumber(wait_end)
k.delayed, k.waiters, k.wake, k.timer, k.settled, k.channel = delayed, waiters, wake, timer, settled, channel
o.max_deliveries, o.waiter = tonumber(max_deliveries), wait_ms ~= '0' and 'w' .. nonce or ''
if wait_end == 0 then wait_end = now + tonumber(wait_ms) end
o.block = math.max(0, math.min(5000, wait_end - now))
local seen = awaited(waiters, wake, timer)
if settled and redis.call('EXISTS', lease) == 1 then
  if seen then -- refuses a wrong type before anything is written
    size_of()
    redis.call('ZCARD', delayed)
  end
  local reply = take_over(k, o, now, true)
  if reply == 'exhausted' or reply == 'outdated' then return {refuse(reply), late, {}} end
  local timer_free = leave(k, o, seen)
  announce(k, now, seen, nil, timer_free)
  return {remember(reply), late, {}}
end
if redis.call('EXISTS', lease) == 1 then return {refuse('superseded'), late, {}} end -- a resend of it was granted
local record = done and redis.call('GET', done)
if record then return {refuse('settled ' .. record), late, {}} end
local waiting, isolated = promote(delayed, ready, now, o.chosen)
if seen and seen.paused then waiting, isolated = 0, 0 end
if waiting + isolated == 0 then
  if o.chosen and seen and not seen.paused then
    local due, holder = timer_due(timer)
    if holder == o.waiter and due <= now and claimable_at(now) > 0 then -- what became due is for other claims
      notify(waiters, wake, channel, now, seen, true)
    end
  end
  local block, more = 0, ''
  if o.block > 0 and #late == 0 then block, more = arm(k, o, now)
  else announce(k, now, seen, nil, leave(k, o, seen)) end
  if #late == 0 then return {refuse('empty ' .. block .. ' ' .. wait_end .. more), late, {}} end
  refuse('empty 1 ' .. wait_end) -- a resend claims again and learns of the expired leases itself
  return {'empty 0 ' .. wait_end, late, {}}
end
local timer_free = leave(k, o, seen)
local reply, kept = open_lease(k, o, now, waiting, isolated)
if lease_ms == 'inf' then announce(k, now, seen, nil, timer_free)
else announce(k, now, seen, now + tonumber(lease_ms), timer_free) end
return {remember(reply), late, kept}
