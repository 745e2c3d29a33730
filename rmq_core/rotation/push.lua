-- Adds ids at the left end.
-- KEYS: slot  list  waiters  wake
-- ARGV: seq  slot_ttl_ms  channel, of notifications  entries...
-- Reply: 'pushed <count>' or 'superseded'.
-- include: clock
-- include: replay
-- include: notify
local earlier = replay()
if earlier then return earlier end
local seen = awaited(waiters, wake)
redis.call('LPUSH', list, unpack(entries))
if seen then notify(waiters, wake, channel, clock(), seen) end
return remember('pushed ' .. #entries)
