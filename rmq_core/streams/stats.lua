-- Counts the entries that a group has not finished; changes nothing.
-- KEYS: stream
-- ARGV: group  stale_ms, after which an entry is stale  most, how far to count
-- Reply: {length, undelivered, pending, stale, ms of the oldest undelivered, ms of the oldest stale,
--   idle ms of the oldest pending, consumers that hold entries, now ms}; -1 where there is none.
-- include: clock
-- include: group
local function ms_of(entry)
  return entry and tonumber(string.match(entry[1], '^%d+')) or -1
end
local found = group_of(stream, group)
local length = redis.call('XLEN', stream)
local after = found and '(' .. found['last-delivered-id'] or '-'
local first = redis.call('XRANGE', stream, after, '+', 'COUNT', 1)[1]
local undelivered = not first and 0 or found and found.lag or not found and length
undelivered = undelivered or #redis.call('XRANGE', stream, after, '+', 'COUNT', most)
if not found or found.pending == 0 then
  return {length, undelivered, 0, 0, ms_of(first), -1, -1, 0, clock()}
end
local late = redis.call('XPENDING', stream, group, 'IDLE', stale_ms, '-', '+', most)
local oldest = redis.call('XPENDING', stream, group, '-', '+', 1)[1]
local holders = redis.call('XPENDING', stream, group)[4]
return {length, undelivered, found.pending, #late, ms_of(first), ms_of(late[1]), oldest[3], #holders, clock()}
