-- Acks a whole lease and claims the next messages under a new anonymous one; a lost lease claims nothing.
-- KEYS: 1 slot  2 ready  3 leases  4 lease  5 fence  6 delayed  7 waiters  8 wake  9 timer
--       10 lease to ack  11 its settled bitmap  12 its done record  13 completed
-- ARGV: 1 seq  2 slot ttl ms  3 lease id  4 id to ack  5 nonce  6 lease ms or 'inf'  7 max messages
--       8 owner  9 its token  10 its done ttl ms, 0 for none  11 completed log cap  12 bell channel
-- Reply: {head, expired lease ids, envelopes in batches} as in claim.lua; head is 'claimed ...' with the number acked at its end,
--   'empty <acked>', 'lost' or 'superseded'.
-- include: clock
-- include: replay
-- include: expired
-- include: hold
local earlier = replay()
if earlier then return {earlier, expired(KEYS[3], clock()), {}} end
local k = {ready = KEYS[2], leases = KEYS[3], lease = KEYS[4], fence = KEYS[5]}
local o = {id = ARGV[3], nonce = ARGV[5], lease_ms = ARGV[6], owner = ARGV[8]}
local now = string.format('%.0f', clock()) -- a number would be written out anew by each call that gets it
local late = expired(k.leases, now)
-- Held, nothing settled before and nothing to keep, while nobody waits and nothing is delayed: answered before the rest
-- below is even defined.
local line, whole = redis.call('LINDEX', KEYS[10], 0), ARGV[9] .. ' h '
local plain = line and string.sub(line, 1, #whole) == whole and ARGV[10] == '0' and ARGV[11] == '0'
              and redis.call('EXISTS', KEYS[4], KEYS[6], KEYS[7]) == 0
local ready, acked = 0, 0
if plain then
  ready, acked = redis.call('LLEN', k.ready), redis.call('LLEN', KEYS[10]) - 1
  redis.call('STRLEN', k.fence) -- refuses a wrong type before anything is written
  redis.call('ZREM', k.leases, ARGV[4])
  redis.call('UNLINK', KEYS[10])
  if ready == 0 then return {remember('empty ' .. acked), late, {}} end
end
if plain and ARGV[7] == '1' then
  local reply, kept = hold_one(k, o, now)
  return {remember(reply .. ' ' .. acked), late, kept}
end
-- include: fitting
-- include: take
-- include: open_ready
o.max = tonumber(ARGV[7])
if plain then
  local reply, kept = open_ready(k, o, now, ready)
  return {remember(reply .. ' ' .. acked), late, kept}
end
-- include: head
-- include: ring
-- include: timer
-- include: mark
-- include: isolated
-- include: promote
-- include: open_lease
-- include: finish
now = tonumber(now)
k.delayed, k.waiters, k.wake, k.timer, k.bell = KEYS[6], KEYS[7], KEYS[8], KEYS[9], ARGV[12]
local done = {id = ARGV[4], leases = k.leases, lease = KEYS[10], settled = KEYS[11], done = KEYS[12],
              completed = KEYS[13]}
local head = held_by(done.lease, ARGV[9])
if not head then return {'lost', {}, {}} end
if redis.call('EXISTS', k.lease) == 1 then return {refuse('superseded'), {}, {}} end -- see claim.lua
local seen, isolated = awaited(k.waiters, k.wake, k.timer), 0
ready, isolated = promote(k.delayed, k.ready, now)
redis.call('STRLEN', k.fence) -- refuses a wrong type before anything is written
acked = finish(done, head, now, tonumber(ARGV[10]), tonumber(ARGV[11]))
if ready + isolated == 0 or (seen and seen.paused) then return {remember('empty ' .. acked), late, {}} end
local reply, kept = open_lease(k, o, now, ready, isolated)
if o.lease_ms == 'inf' then announce(k, now, seen) else announce(k, now, seen, now + tonumber(o.lease_ms)) end
return {remember(reply .. ' ' .. acked), late, kept}
