-- Pauses a queue, or resumes it. While it is paused, the group's last delivered entry is behind all entries, so that
-- workers that block in Redis get none; `paused` holds the entry that was delivered last before.
-- KEYS: slot  ready  paused
-- ARGV: seq  slot_ttl_ms  group  stop, '1' to pause, '0' to resume
-- Reply: 'paused', 'resumed' or 'superseded'.
-- include: replay
-- include: group
local earlier = replay()
if earlier then return earlier end
local before, found = redis.call('GET', paused), group_of(ready, group)
redis.call('PERSIST', paused) -- a full server allows this write and the later ones
if stop == '1' and not before then
  redis.call('SET', paused, found and found['last-delivered-id'] or '0-0')
  if found then redis.call('XGROUP', 'SETID', ready, group, '18446744073709551615-18446744073709551615') end
elseif stop == '0' and before then
  if found then redis.call('XGROUP', 'SETID', ready, group, before) end
  redis.call('DEL', paused)
end
return remember(stop == '1' and 'paused' or 'resumed')
