-- Counts what a group has before it; changes nothing.
-- KEYS: 1 stream
-- ARGV: 1 group  2 ms after which an entry is stale  3 how far to count
-- Reply: {length, undelivered, pending, stale, ms of the oldest undelivered, of the oldest stale, idle ms of the oldest
--        pending, consumers that hold something, now ms}; -1 where there is none.
-- include: clock
-- include: group
local stream, most = KEYS[1], tonumber(ARGV[3])
local function ms_of(entry)
  return entry and tonumber(string.match(entry[1], '^%d+')) or -1
end
local group = group_of(stream, ARGV[1])
local length = redis.call('XLEN', stream)
local after = group and '(' .. group['last-delivered-id'] or '-'
local first = redis.call('XRANGE', stream, after, '+', 'COUNT', 1)[1]
local undelivered = not first and 0 or group and group.lag or not group and length
undelivered = undelivered or #redis.call('XRANGE', stream, after, '+', 'COUNT', most)
if not group or group.pending == 0 then
  return {length, undelivered, 0, 0, ms_of(first), -1, -1, 0, clock()}
end
local late = redis.call('XPENDING', stream, ARGV[1], 'IDLE', ARGV[2], '-', '+', most)
local oldest = redis.call('XPENDING', stream, ARGV[1], '-', '+', 1)[1]
local holders = redis.call('XPENDING', stream, ARGV[1])[4]
return {length, undelivered, group.pending, #late, ms_of(first), ms_of(late[1]), oldest[3], #holders, clock()}
