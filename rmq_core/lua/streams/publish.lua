-- Adds entries to a stream, all or, when the server has no memory, none.
-- KEYS: 1 slot  2 stream
-- ARGV: 1 seq  2 slot ttl ms  3... payloads
-- Reply: 'added <ids>' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
local ids = {'added'}
for i = 3, #ARGV do ids[#ids + 1] = redis.call('XADD', KEYS[2], '*', 'data', ARGV[i]) end
return remember(table.concat(ids, ' '))
