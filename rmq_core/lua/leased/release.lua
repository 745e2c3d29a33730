-- Gives the newest messages of a lease back untouched: no delivery is counted.
-- KEYS: 1 slot  2 leases  3 lease  4 settled  5 ready  6 delayed  7 dead  8 failed  9 waiters  10 wake
-- ARGV: 1 seq  2 slot ttl ms  3 lease id  4 token  5 bell channel
-- Reply: 'returned <count> <messages left in the lease>', 'lost' or 'superseded'.
-- include: clock
-- include: replay
-- include: head
-- include: ring
-- include: mark
-- include: recount
-- include: set_delayed
-- include: fitting
-- include: give_back
-- include: untouched
local earlier = replay()
if earlier then return earlier end
local head = held_by(KEYS[3], ARGV[4])
if not head then return 'lost' end
local keys = {id = ARGV[3], leases = KEYS[2], lease = KEYS[3], settled = KEYS[4], ready = KEYS[5], delayed = KEYS[6],
              dead = KEYS[7], failed = KEYS[8]}
check_types(keys)
local now, seen = clock(), awaited(KEYS[9], KEYS[10])
local how = untouched(head, KEYS[3])
redis.call('PERSIST', KEYS[3])
if head.state ~= 'l' then
  head.state, head.returned = 'l', head.returned + 1
  redis.call('LSET', KEYS[3], 0, head_text(head))
end
local back, _, left = give_back(keys, 4000, how)
if seen and back > 0 then ring(KEYS[9], KEYS[10], ARGV[5], now, seen) end
return remember('returned ' .. back .. ' ' .. left)
