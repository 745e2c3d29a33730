-- Lets deduplication keys be used again.
-- KEYS: 1 slot  2 one key  3 another
-- ARGV: 1 seq  2 slot ttl ms
-- Reply: 'forgotten', 'free' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
if redis.call('DEL', KEYS[2]) + redis.call('DEL', KEYS[3]) == 0 then return refuse('free') end
return remember('forgotten')
