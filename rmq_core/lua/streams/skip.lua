-- Lets a group pass over what is ready: stale entries are acknowledged, undelivered ones are never delivered to it.
-- The entries stay in the stream, for other groups. A thousand of each at a time.
-- KEYS: 1 slot  2 stream
-- ARGV: 1 seq  2 slot ttl ms  3 group  4 ms after which an entry is stale
-- Reply: 'skipped <number>' or 'superseded'.
-- include: replay
-- include: group
-- include: holder
local earlier = replay()
if earlier then return earlier end
local group, stream, skipped = group_of(KEYS[2], ARGV[3]), KEYS[2], 0
if group then
  for _, entry in ipairs(redis.call('XPENDING', stream, ARGV[3], 'IDLE', ARGV[4], '-', '+', 1000)) do
    skipped = skipped + redis.call('XACK', stream, ARGV[3], entry[1])
    if string.find(entry[2], '^~.') then leave(stream, ARGV[3], entry[2]) end
  end
  local ready = redis.call('XRANGE', stream, '(' .. group['last-delivered-id'], '+', 'COUNT', 1000)
  if #ready > 0 then redis.call('XGROUP', 'SETID', stream, ARGV[3], ready[#ready][1]) end
  skipped = skipped + #ready
end
return refuse('skipped ' .. skipped)
