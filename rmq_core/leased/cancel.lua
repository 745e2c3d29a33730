-- Removes messages of a list or a sorted set and frees their deduplication keys.
-- KEYS: slot  key, list or sorted set  markers..., deduplication keys, one per message or none
-- ARGV: seq  slot_ttl_ms  kind, zset; or, for a list, which of equal messages to remove: newest or oldest
--       window_ms:number, of deduplication  messages...
-- Reply: 'removed <count>' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: envelope
-- include: drop_entry
local now, removed, free = clock(), 0, {}
for i = 1, #messages do
  local gone = drop_entry(key, messages[i], kind)
  removed = removed + gone
  local published = enqueued(messages[i])
  -- The key of a message older than the window has expired: if it exists, it belongs to another message.
  if gone > 0 and markers[i] and published and now - published < window_ms then free[#free + 1] = markers[i] end
end
if #free > 0 then redis.call('UNLINK', unpack(free)) end
return refuse('removed ' .. removed)
