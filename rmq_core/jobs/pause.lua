-- Pauses a queue, or resumes it.
-- KEYS: slot  ready  paused
-- ARGV: seq  slot_ttl_ms  group  wanted, '1' to pause, '0' to resume
-- Reply: 'paused', 'resumed' or 'superseded'.
-- include: replay
-- include: stop
local earlier = replay()
if earlier then return earlier end
local before = redis.call('GET', paused)
redis.call('PERSIST', paused) -- a full server allows this write and the later ones
if wanted == '1' then
  stop(ready, paused, group)
elseif before then
  if group_of(ready, group) then redis.call('XGROUP', 'SETID', ready, group, before) end
  redis.call('DEL', paused)
end
return remember(wanted == '1' and 'paused' or 'resumed')
