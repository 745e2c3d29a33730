-- Acks a whole lease and claims the next messages under a new anonymous one; a lost lease claims nothing.
-- KEYS: 1 slot  2 ready  3 leases  4 lease  5 fence  6 delayed  7 waiters  8 wake  9 timer
--       10 lease to ack  11 its settled bitmap  12 its done record  13 completed
-- ARGV: 1 seq  2 slot ttl ms  3 lease id  4 id to ack  5 nonce  6 lease ms or 'inf'  7 max messages
--       8 '1' to return the envelopes  9 owner  10 its token  11 its done ttl ms, 0 for none  12 completed log cap
--       13 bell channel  14 max deliveries or 0
-- Reply: {head, expired lease ids, envelopes}; head is 'claimed ...' as in claim.lua with the number acked at its end,
--   'empty <acked>', 'lost' or 'superseded'.
-- include: clock
-- include: replay
-- include: head
-- include: ring
-- include: timer
-- include: deliveries
-- include: promote
-- include: take
-- include: claim
-- include: finish
local earlier = replay()
if earlier then return {earlier, expired(KEYS[3], clock()), {}} end
local k = {ready = KEYS[2], leases = KEYS[3], lease = KEYS[4], fence = KEYS[5], delayed = KEYS[6], waiters = KEYS[7],
           wake = KEYS[8], timer = KEYS[9], bell = ARGV[13]}
local o = {id = ARGV[3], nonce = ARGV[5], lease_ms = ARGV[6], max = tonumber(ARGV[7]), keep = ARGV[8] == '1',
           owner = ARGV[9], max_deliveries = tonumber(ARGV[14])}
local done = {id = ARGV[4], leases = k.leases, lease = KEYS[10], settled = KEYS[11], done = KEYS[12],
              completed = KEYS[13]}
local head = held_by(done.lease, ARGV[10])
if not head then return {'lost', {}, {}} end
local now = clock()
local seen = awaited(k.waiters, k.wake, k.timer)
local late = expired(k.leases, now)
local oldest = redis.call('LINDEX', k.ready, -1)
if promote(k.delayed, k.ready, now) > 0 then oldest = redis.call('LINDEX', k.ready, -1) end
redis.call('STRLEN', k.fence) -- refuses a wrong type before anything is written
local acked = finish(done, head, now, tonumber(ARGV[11]), tonumber(ARGV[12]))
if not oldest or (seen and seen.paused) then return {remember('empty ' .. acked), late, {}} end
local reply, kept = open_lease(k, o, now, oldest)
if o.lease_ms == 'inf' then announce(k, now, seen) else announce(k, now, seen, now + tonumber(o.lease_ms)) end
reply = remember(reply .. ' ' .. acked)
return {reply, late, o.keep and kept or {}}
