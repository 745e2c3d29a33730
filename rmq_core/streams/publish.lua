-- Adds entries to a stream: all of them, or none if the server is out of memory.
-- KEYS: slot  stream
-- ARGV: seq  slot_ttl_ms  payloads...
-- Reply: 'added <ids>' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
local ids = {'added'}
for i = 1, #payloads do ids[#ids + 1] = redis.call('XADD', stream, '*', 'data', payloads[i]) end
return remember(table.concat(ids, ' '))
