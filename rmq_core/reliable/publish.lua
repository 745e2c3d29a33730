-- Adds a chunk of messages to the left end of the queue.
-- KEYS: slot  queue
-- ARGV: seq  slot_ttl_ms  messages..., their bodies
-- Reply: 'accepted <count>' or 'superseded'.
-- include: clock
-- include: replay
-- include: stamp
local earlier = replay()
if earlier then return earlier end
local front, fresh = stamp(clock()), {}
for i = 1, #messages do fresh[i] = front .. messages[i] end
redis.call('LPUSH', queue, unpack(fresh))
return remember('accepted ' .. #fresh)
