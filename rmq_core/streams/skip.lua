-- Makes a group skip its ready entries: stale ones are acknowledged, undelivered ones are never delivered to it.
-- The entries stay in the stream, for other groups. Handles a thousand of each at a time.
-- KEYS: slot  stream
-- ARGV: seq  slot_ttl_ms  group  stale_ms, after which an entry is stale
-- Reply: 'skipped <number>' or 'superseded'.
-- include: replay
-- include: group
-- include: holder
local earlier = replay()
if earlier then return earlier end
local found, skipped = group_of(stream, group), 0
if found then
  for _, entry in ipairs(redis.call('XPENDING', stream, group, 'IDLE', stale_ms, '-', '+', 1000)) do
    skipped = skipped + redis.call('XACK', stream, group, entry[1])
    if string.find(entry[2], '^~.') then leave(stream, group, entry[2]) end
  end
  local ready = redis.call('XRANGE', stream, '(' .. found['last-delivered-id'], '+', 'COUNT', 1000)
  if #ready > 0 then redis.call('XGROUP', 'SETID', stream, group, ready[#ready][1]) end
  skipped = skipped + #ready
end
return refuse('skipped ' .. skipped)
