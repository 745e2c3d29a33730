-- Finishes every message of a lease.
-- KEYS: 1 slot  2 leases  3 lease  4 settled  5 done  6 completed
-- ARGV: 1 seq  2 slot ttl ms  3 lease id  4 token  5 done ttl ms, 0 for none  6 completed log cap
-- Reply: 'acked <count>', 'lost' or 'superseded'.
-- include: clock
-- include: replay
-- include: head
-- include: finish
local earlier = replay()
if earlier then return earlier end
local head = held_by(KEYS[3], ARGV[4])
if not head then return 'lost' end
local k = {id = ARGV[3], leases = KEYS[2], lease = KEYS[3], settled = KEYS[4], done = KEYS[5], completed = KEYS[6]}
local done_ttl = tonumber(ARGV[5])
return remember('acked ' .. finish(k, head, done_ttl > 0 and clock() or 0, done_ttl, tonumber(ARGV[6])))
