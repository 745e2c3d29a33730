-- Wakes one of the consumers that wait for messages of any shard, if more wait than are woken already.
-- KEYS: parked  knocks
-- ARGV: shard, which has messages
-- Reply: how many wait.
-- include: clock
local waiting = redis.call('ZCOUNT', parked, clock(), '+inf')
if waiting > redis.call('LLEN', knocks) then
  redis.call('LPUSH', knocks, shard)
  redis.call('PEXPIRE', knocks, 60000)
end
return waiting
