-- Adds a chunk of messages to the left end of the queue.
-- KEYS: 1 slot  2 queue
-- ARGV: 1 seq  2 slot ttl ms  3 number of messages  4... their bodies
-- Reply: 'accepted <count>' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
local stamp, fresh = '0 ' .. clock() .. ' 0 ', {}
for i = 1, tonumber(ARGV[3]) do fresh[i] = stamp .. ARGV[3 + i] end
redis.call('LPUSH', KEYS[2], unpack(fresh))
return remember('accepted ' .. #fresh)
