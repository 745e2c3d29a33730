-- Deletes a delayed job and frees its id.
-- KEYS: slot  delayed  later  marker, deduplication key of its id  another, key that the publisher named
-- ARGV: seq  slot_ttl_ms  job_id
-- Reply: 'cancelled', 'missing' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
redis.call('STRLEN', marker) -- refuses a wrong type before anything is written
redis.call('STRLEN', another)
redis.call('HLEN', later)
if redis.call('ZREM', delayed, job_id) == 0 then return refuse('missing') end
redis.call('HDEL', later, job_id)
redis.call('DEL', marker, another)
return remember('cancelled')
