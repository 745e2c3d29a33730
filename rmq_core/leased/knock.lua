-- Wakes one of the consumers that wait for messages of any shard, if more wait than are woken already.
-- KEYS: waiters  wake
-- ARGV: shard, which has messages
-- Reply: how many wait.
-- include: clock
local waiting = redis.call('ZCOUNT', waiters, clock(), '+inf')
if waiting > redis.call('LLEN', wake) then
  redis.call('LPUSH', wake, shard)
  redis.call('PEXPIRE', wake, 60000)
end
return waiting
