-- Adds a chunk of messages to the left end of the queue.
-- KEYS: slot  queue
-- ARGV: seq  slot_ttl_ms  messages..., their bodies
-- Reply: 'accepted <count>' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
local stamp, fresh = '0 ' .. clock() .. ' 0 ', {}
for i = 1, #messages do fresh[i] = stamp .. messages[i] end
redis.call('LPUSH', queue, unpack(fresh))
return remember('accepted ' .. #fresh)
