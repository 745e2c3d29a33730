-- Pauses claims, or resumes them and wakes a waiter.
-- KEYS: slot  waiters  wake  leases  ready
-- ARGV: seq  slot_ttl_ms  paused, '1' to pause, '0' to resume  channel, of notifications
-- Reply: 'paused', 'resumed' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: ready
-- include: notify
size_of() -- refuses a wrong type before anything is written
redis.call('PERSIST', leases)
if paused == '1' then
  redis.call('ZADD', waiters, 0, '=')
  return remember('paused')
end
redis.call('ZREM', waiters, '=')
local seen = awaited(waiters, wake)
if seen then notify(waiters, wake, channel, clock(), seen, true) end
return remember('resumed')
