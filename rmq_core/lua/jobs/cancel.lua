-- Forgets a delayed job and that its id is taken.
-- KEYS: 1 slot  2 delayed  3 later  4 deduplication key of its id
-- ARGV: 1 seq  2 slot ttl ms  3 job id
-- Reply: 'cancelled', 'missing' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
redis.call('STRLEN', KEYS[4])
redis.call('HLEN', KEYS[3])
if redis.call('ZREM', KEYS[2], ARGV[3]) == 0 then return refuse('missing') end
redis.call('HDEL', KEYS[3], ARGV[3])
redis.call('DEL', KEYS[4])
return remember('cancelled')
