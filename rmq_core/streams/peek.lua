-- Returns the entries that would be claimed next: new ones, then stale ones; changes nothing.
-- KEYS: stream
-- ARGV: group  stale_ms, after which an entry is stale  most:number
-- Reply: {{id, deliveries, payload}...}
-- include: group
local entries, found = {}, group_of(stream, group)
local after = found and '(' .. found['last-delivered-id'] or '-'
for _, entry in ipairs(redis.call('XRANGE', stream, after, '+', 'COUNT', most)) do
  entries[#entries + 1] = {entry[1], 0, data_of(entry[2])}
end
if not found or #entries == most then return entries end
for _, held in ipairs(redis.call('XPENDING', stream, group, 'IDLE', stale_ms, '-', '+', most - #entries)) do
  local entry = redis.call('XRANGE', stream, held[1], held[1])[1]
  if entry then entries[#entries + 1] = {held[1], held[4], data_of(entry[2])} end
end
return entries
