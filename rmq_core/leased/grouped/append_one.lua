-- Adds one message without priority, publication and unique key whose group is in line, held or new; returns false for any
-- other. It needs none of the functions in ready.lua, whose definition would take as long.
-- KEYS: ready  groups  grouped  turns  expiring
-- include: dated
-- include: entry_of
local function has_room(_) return false end
local function append_one(envelope)
  local stop, size, start = string.match(envelope, '^%d+ %d+ 0 ()%S+ %a(%d+) ()')
  local headers = stop and string.sub(envelope, start, start + size - 1)
  if not stop or string.find(headers, '"rmq%-[pu]') then return false end
  local policy, name = redis.call('GET', ready), string.match(headers, '"rmq%-group":"([^"]*)"') or ''
  local got, format = redis.call('HMGET', groups, '\0', name), string.format -- `..` takes twice as long for a number
  local time, claimable, count = string.match(got[1] or '0 0 0', '^(%S+) (%S+) (%S+)$')
  local place, first, next, waiting, rest = string.match(got[2] or '', '^([tr]) (%S+) (%S+) (%S+)(.*)$')
  if not policy or (got[2] and not place) or (not got[2] and string.find(policy, ' ', 1, true)) then return false end
  if not place then
    local turn = format('%d', time + 100)
    place, first, next, waiting, rest = 't', '0', '0', '0', ' 0 ' .. turn .. ' 0 0'
    redis.call('ZADD', turns, turn, name)
  end
  local stored, expires = envelope, nil
  if string.find(headers, '"rmq-expires":"', 1, true) then stored, expires = dated(envelope, stop) end
  redis.call('HSET', grouped, name .. '\0' .. next, stored)
  if expires then redis.call('ZADD', expiring, expires, entry_of(name, next)) end
  if place == 't' then claimable = claimable + 1 end
  redis.call('HSET', groups, name, format('%s %s %d %d%s', place, first, next + 1, waiting + 1, rest),
             '\0', format('%s %d %d', time, claimable, count + 1))
  return true
end
