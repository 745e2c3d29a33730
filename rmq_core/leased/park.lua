-- Registers a consumer that waits for messages of any shard, and removes it: block_ms 0.
-- KEYS: parked  knocks
-- ARGV: waiter  block_ms:number
-- Reply: now ms.
-- include: clock
local now = clock()
redis.call('LLEN', knocks) -- refuses a wrong type before anything is written
redis.call('ZREMRANGEBYSCORE', parked, '-inf', '(' .. now)
if block_ms > 0 then redis.call('ZADD', parked, now + block_ms + 2000, waiter)
else redis.call('ZREM', parked, waiter) end
return now
