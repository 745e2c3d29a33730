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
-- include: head
-- include: ring
-- include: timer
-- include: isolation
-- include: promote
-- include: fitting
-- include: take
-- include: claim
-- include: finish
local earlier = replay()
if earlier then return {earlier, expired(KEYS[3], clock()), {}} end
local k = {ready = KEYS[2], leases = KEYS[3], lease = KEYS[4], fence = KEYS[5], delayed = KEYS[6], waiters = KEYS[7],
           wake = KEYS[8], timer = KEYS[9], bell = ARGV[12]}
local o = {id = ARGV[3], nonce = ARGV[5], lease_ms = ARGV[6], max = tonumber(ARGV[7]), owner = ARGV[8]}
local done = {id = ARGV[4], leases = k.leases, lease = KEYS[10], settled = KEYS[11], done = KEYS[12],
              completed = KEYS[13]}
local head = held_by(done.lease, ARGV[9])
if not head then return {'lost', {}, {}} end
if redis.call('EXISTS', k.lease) == 1 then return {refuse('superseded'), {}, {}} end -- see claim.lua
local now = clock()
local seen = awaited(k.waiters, k.wake, k.timer)
local late = expired(k.leases, now)
local ready, isolated = promote(k.delayed, k.ready, now)
redis.call('STRLEN', k.fence) -- refuses a wrong type before anything is written
local acked = finish(done, head, now, tonumber(ARGV[10]), tonumber(ARGV[11]))
if ready + isolated == 0 or (seen and seen.paused) then return {remember('empty ' .. acked), late, {}} end
local reply, kept = open_lease(k, o, now, ready, isolated)
if o.lease_ms == 'inf' then announce(k, now, seen) else announce(k, now, seen, now + tonumber(o.lease_ms)) end
return {remember(reply .. ' ' .. acked), late, kept}
