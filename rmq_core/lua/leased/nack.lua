-- Gives the newest messages of a lease back as failed: to ready, isolated, to delayed, or to the dead letters.
-- KEYS: 1 slot  2 leases  3 lease  4 settled  5 ready  6 delayed  7 dead  8 failed  9 waiters  10 wake  11 timer
-- ARGV: 1 seq  2 slot ttl ms  3 lease id  4 token  5 delay ms  6 reason  7 max deliveries or 0  8 dead letter cap
--       9 failed log cap  10 bell channel
-- Reply: 'returned <count> <messages left in the lease> [<dead ids>]', 'lost' or 'superseded'.
-- include: clock
-- include: replay
-- include: head
-- include: ring
-- include: timer
-- include: recount
-- include: set_delayed
-- include: fitting
-- include: give_back
-- include: failure
local earlier = replay()
if earlier then return earlier end
local head = held_by(KEYS[3], ARGV[4])
if not head then return 'lost' end
local keys = {id = ARGV[3], leases = KEYS[2], lease = KEYS[3], settled = KEYS[4], ready = KEYS[5], delayed = KEYS[6],
              dead = KEYS[7], failed = KEYS[8]}
check_types(keys)
local now, seen = clock(), awaited(KEYS[9], KEYS[10], KEYS[11])
local delay = tonumber(ARGV[5])
local how = failure_of(head, KEYS[3], KEYS[4])
how.entry, how.due = table.concat({'nack', now, head.owner, ARGV[6]}, '\t'), delay > 0 and now + delay or nil
how.max_deliveries, how.max_dead, how.failed_log = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
redis.call('PERSIST', KEYS[3])
if head.state ~= 'n' and how.size > 1 then
  head.state = 'n'
  redis.call('LSET', KEYS[3], 0, head_text(head))
end
-- A quarter of what release moves, for each envelope is written anew; an eighth where each is sorted in, too.
local back, dead, left = give_back(keys, how.due and 500 or 1000, how)
if seen and back > 0 and (not how.due or sooner(KEYS[11], how.due)) then ring(KEYS[9], KEYS[10], ARGV[10], now, seen) end
return remember(table.concat({'returned', back + #dead, left, unpack(dead)}, ' '))
