-- Stops claims, or lets them go on and wakes a waiter. Harmless to repeat.
-- KEYS: 1 waiters  2 wake  3 leases
-- ARGV: 1 '1' to pause, '0' to resume  2 bell channel
-- Reply: 'paused' or 'resumed'.
-- include: clock
-- include: ring
redis.call('PERSIST', KEYS[3])
if ARGV[1] == '1' then
  redis.call('ZADD', KEYS[1], 0, '=')
  return 'paused'
end
redis.call('ZREM', KEYS[1], '=')
local seen = awaited(KEYS[1], KEYS[2])
if seen then ring(KEYS[1], KEYS[2], ARGV[2], clock(), seen) end
return 'resumed'
