-- The entries that would be claimed next: new ones, then stale ones; they stay where they are.
-- KEYS: 1 stream
-- ARGV: 1 group  2 ms after which an entry is stale  3 how many
-- Reply: {{id, deliveries, payload}...}
-- include: group
local stream, most, found = KEYS[1], tonumber(ARGV[3]), {}
local group = group_of(stream, ARGV[1])
local after = group and '(' .. group['last-delivered-id'] or '-'
for _, entry in ipairs(redis.call('XRANGE', stream, after, '+', 'COUNT', most)) do
  found[#found + 1] = {entry[1], 0, data_of(entry[2])}
end
if not group or #found == most then return found end
for _, held in ipairs(redis.call('XPENDING', stream, ARGV[1], 'IDLE', ARGV[2], '-', '+', most - #found)) do
  local entry = redis.call('XRANGE', stream, held[1], held[1])[1]
  if entry then found[#found + 1] = {held[1], held[4], data_of(entry[2])} end
end
return found
