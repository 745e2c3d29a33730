-- Stops claims, or lets them go on and wakes a waiter.
-- KEYS: 1 slot  2 waiters  3 wake  4 leases
-- ARGV: 1 seq  2 slot ttl ms  3 '1' to pause, '0' to resume  4 bell channel
-- Reply: 'paused', 'resumed' or 'superseded'.
-- include: clock
-- include: replay
-- include: ring
local earlier = replay()
if earlier then return earlier end
redis.call('PERSIST', KEYS[4])
if ARGV[3] == '1' then
  redis.call('ZADD', KEYS[2], 0, '=')
  return remember('paused')
end
redis.call('ZREM', KEYS[2], '=')
local seen = awaited(KEYS[2], KEYS[3])
if seen then ring(KEYS[2], KEYS[3], ARGV[4], clock(), seen) end
return remember('resumed')
