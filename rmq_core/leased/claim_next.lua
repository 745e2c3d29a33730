-- Acks a whole lease and claims the next messages under a new anonymous one; a lost lease claims nothing.
-- KEYS: slot  ready  leases  lease  fence  delayed  waiters  wake  timer
--       acked_lease, the one to ack  settled, its bitmap  done, its record  completed
-- ARGV: seq  slot_ttl_ms  lease_id  acked_id, of the lease to ack  nonce  lease_ms, or 'inf'  max_messages
--       owner  token, of the lease to ack  done_ttl_ms, of its record, 0 for none  completed_cap
--       channel, of notifications  from_groups?, as in claim.lua
-- Reply: {head, expired lease ids, envelopes in batches} as in claim.lua; head is 'claimed ...', which ends with the
--   number acked, 'empty <acked>', 'lost', 'ungrouped' or 'superseded'.
-- include: clock
-- include: replay
-- include: list_expired
local earlier = replay()
if earlier then return {earlier, expired(leases, clock()), {}} end
-- include: hold_quickly
-- include: ended_quickly
local k = {ready = ready, leases = leases, lease = lease, fence = fence}
local o = {id = lease_id, nonce = nonce, lease_ms = lease_ms, owner = owner}
local now = string.format('%.0f', clock()) -- text, because each call would convert a number again
local late = expired(leases, now)
-- Fast path: the lease is held, nothing was settled before, nothing is to be kept, and there are no waiters and no
-- delayed messages. It returns before the includes below are defined and before numbers are converted.
local plain, waiting, acked, over = false, 0, nil, nil
do -- a block, because a script may have 200 locals
  local line, whole = redis.call('LINDEX', acked_lease, 0), token .. ' h '
  plain = line and string.sub(line, 1, #whole) == whole and done_ttl_ms == '0' and completed_cap == '0'
          and redis.call('EXISTS', lease, delayed, waiters) == 0
end
if plain and ended_quickly and max_messages == '1' and not from_groups then
  acked = redis.call('LLEN', acked_lease) - 1
  redis.call('STRLEN', fence) -- refuses a wrong type before anything is written
  redis.call('ZREM', leases, acked_id)
  redis.call('UNLINK', acked_lease)
  over = ended_quickly()
  local reply, kept = nil, nil
  if over then reply, kept = hold_quickly(k, o, now) end
  if reply then return {remember(reply .. ' ' .. acked), late, kept} end
end
-- include: hold
-- include: ready
-- include: ended
o.chosen = from_groups and lines_of(from_groups)
if from_groups and not o.chosen then return {refuse('ungrouped'), {}, {}} end
if plain then
  if not acked then
    waiting, acked = claimable_at(now, o.chosen), redis.call('LLEN', acked_lease) - 1
    redis.call('STRLEN', fence) -- refuses a wrong type before anything is written
    redis.call('ZREM', leases, acked_id)
    redis.call('UNLINK', acked_lease)
  end
  if ended and not over then ended() end
  if in_groups then waiting = claimable_at(now, o.chosen) end
  if waiting == 0 then return {remember('empty ' .. acked), late, {}} end
end
if plain and max_messages == '1' then
  local reply, kept = hold_one(k, o, now)
  return {remember(reply .. ' ' .. acked), late, kept}
end
-- include: open_ready
o.max = tonumber(max_messages)
if plain then
  local reply, kept = open_ready(k, o, now, waiting)
  return {remember(reply .. ' ' .. acked), late, kept}
end
-- include: head
-- include: notify
-- include: promote
-- include: open_lease
-- include: finish
do
  now = tonumber(now)
  k.delayed, k.waiters, k.wake, k.timer, k.channel = delayed, waiters, wake, timer, channel
  local gone = {id = acked_id, leases = leases, lease = acked_lease, settled = settled, done = done, completed = completed}
  local head = held_by(acked_lease, token)
  if not head then return {'lost', {}, {}} end
  if redis.call('EXISTS', lease) == 1 then return {refuse('superseded'), {}, {}} end -- see claim.lua
  local seen, isolated = awaited(waiters, wake, timer), 0
  waiting, isolated = promote(delayed, ready, now, o.chosen)
  redis.call('STRLEN', fence) -- refuses a wrong type before anything is written
  acked = finish(gone, head, now, tonumber(done_ttl_ms), tonumber(completed_cap))
  if in_groups then waiting = claimable_at(now, o.chosen) end
  if waiting + isolated == 0 or (seen and seen.paused) then return {remember('empty ' .. acked), late, {}} end
  local reply, kept = open_lease(k, o, now, waiting, isolated)
  if lease_ms == 'inf' then announce(k, now, seen) else announce(k, now, seen, now + tonumber(lease_ms)) end
  return {remember(reply .. ' ' .. acked), late, kept}
end
