-- Deletes a ready job that nobody holds, and frees its id.
-- KEYS: slot  ready  paused  marker, deduplication key of its id  another, key that the publisher named
-- ARGV: seq  slot_ttl_ms  group  entry, its id in the stream
-- Reply: 'cancelled', 'missing' or 'superseded'.
-- include: replay
-- include: group
local earlier = replay()
if earlier then return earlier end
redis.call('STRLEN', marker) -- refuses a wrong type before anything is written
redis.call('STRLEN', another)
local found = group_of(ready, group)
local delivered = redis.call('GET', paused) or (found and found['last-delivered-id']) or '0-0'
local newest = redis.call('XREVRANGE', ready, entry, '(' .. delivered, 'COUNT', 1)[1]
if not newest or newest[1] ~= entry then return refuse('missing') end
redis.call('XDEL', ready, entry)
redis.call('DEL', marker, another)
return remember('cancelled')
