-- Deletes a stage unless it was published; a stage without an expiry time was published.
-- KEYS: slot  stage
-- ARGV: seq  slot_ttl_ms
-- Reply: 'dropped', 'kept' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
redis.call('LLEN', stage)
if redis.call('PTTL', stage) == -1 then return refuse('kept') end
redis.call('UNLINK', stage)
return refuse('dropped')
