-- Registers a consumer that waits for messages of any shard, and removes it: block_ms 0.
-- KEYS: waiters  wake
-- ARGV: waiter  block_ms:number
-- Reply: {how many wait now, now ms}.
-- include: clock
local now = clock()
redis.call('LLEN', wake) -- refuses a wrong type before anything is written
redis.call('ZREMRANGEBYSCORE', waiters, '(0', '(' .. now)
if block_ms > 0 then redis.call('ZADD', waiters, now + block_ms + 2000, waiter)
else redis.call('ZREM', waiters, waiter) end
return {redis.call('ZCOUNT', waiters, now, '+inf'), now}
