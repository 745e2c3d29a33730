-- Frees deduplication keys, so that they can be used again.
-- KEYS: slot  marker, of the deduplication key  another, of a job id with the same text
-- ARGV: seq  slot_ttl_ms
-- Reply: 'forgotten', 'free' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
if redis.call('DEL', marker) + redis.call('DEL', another) == 0 then return refuse('free') end
return remember('forgotten')
