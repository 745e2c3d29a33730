-- Adds ids at the left end.
-- KEYS: 1 slot  2 list  3 waiters  4 wake
-- ARGV: 1 seq  2 slot ttl ms  3 bell channel  4 number of entries  5... the entries
-- Reply: 'pushed <count>' or 'superseded'.
-- include: clock
-- include: replay
-- include: ring
local earlier = replay()
if earlier then return earlier end
local n, seen = tonumber(ARGV[4]), awaited(KEYS[3], KEYS[4])
redis.call('LPUSH', KEYS[2], unpack(ARGV, 5, 4 + n))
if seen then ring(KEYS[3], KEYS[4], ARGV[3], clock(), seen) end
return remember('pushed ' .. n)
