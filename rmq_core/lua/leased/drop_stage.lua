-- Forgets a stage, unless it was published: such a one does not expire.
-- KEYS: 1 slot  2 stage
-- ARGV: 1 seq  2 slot ttl ms
-- Reply: 'dropped', 'kept' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
redis.call('LLEN', KEYS[2])
if redis.call('PTTL', KEYS[2]) == -1 then return refuse('kept') end
redis.call('UNLINK', KEYS[2])
return refuse('dropped')
