-- Adds one message without priority, publication and unique key whose group is in line, held or new; returns false for any other. It needs none of
-- the functions in ready.lua, whose definition would take as long.
-- KEYS: ready  groups  grouped  turns  expiring
-- include: group_in
-- include: dated
local function has_room(_) return false end
local function append_one(envelope)
  local stop = string.match(envelope, '^%d+ %d+ 0 ()')
  if string.find(envelope, '"rmq%-[pu]', stop) then return false end
  local policy, name = redis.call('GET', ready), group_in(envelope, stop)
  local got = redis.call('HMGET', groups, '\0', name)
  local time, claimable, count = string.match(got[1] or '0 0 0', '^(%S+) (%S+) (%S+)$')
  local place, first, next, size, rest = string.match(got[2] or '', '^([tr]) (%S+) (%S+) (%S+)(.*)$')
  if not policy or (got[2] and not place) or (not got[2] and string.find(policy, ' ', 1, true)) then return false end
  if not place then place, first, next, size, rest = 't', 0, 0, 0, ' 0 ' .. time + 100 .. ' 0 0' end
  local stored, expires = dated(envelope, stop)
  redis.call('HSET', grouped, name .. '\0' .. next, stored)
  if expires then redis.call('ZADD', expiring, expires, entry_of(name, next)) end
  if not got[2] then redis.call('ZADD', turns, time + 100, name) end
  redis.call('HSET', groups, name, place .. ' ' .. first .. ' ' .. next + 1 .. ' ' .. size + 1 .. rest,
             '\0', time .. ' ' .. claimable + (place == 't' and 1 or 0) .. ' ' .. count + 1)
  return true
end
