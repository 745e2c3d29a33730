-- Deletes a list.
-- KEYS: slot  list
-- ARGV: seq  slot_ttl_ms
-- Reply: 'removed <count>' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
local size = redis.call('LLEN', list)
redis.call('UNLINK', list)
return remember('removed ' .. size)
