-- Forgets a list.
-- KEYS: 1 slot  2 list
-- ARGV: 1 seq  2 slot ttl ms
-- Reply: 'removed <count>' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
local size = redis.call('LLEN', KEYS[2])
redis.call('UNLINK', KEYS[2])
return remember('removed ' .. size)
