-- Starts a lease of one message of the group in front, or of the only chosen one, if no group in line has a priority, none is
-- isolated or due, none has a weight, and no message has expired. It needs none of the functions in ready.lua, whose
-- definition would take as long.
-- KEYS: ready  groups  grouped  turns  suspects  resting  held_before  expiring  overdue  publications  unique
--       group_holds
-- include: claimed
-- include: grant
-- include: entry_of
local function hold_quickly(k, o, now, chosen)
  local policy = redis.call('GET', ready)
  if not policy or not string.find(policy, '^%d+$') or redis.call('ZCOUNT', resting, '-inf', now) > 0 then return nil end
  local rare = redis.call('EXISTS', suspects, held_before, expiring, overdue, publications, unique) > 0
  if rare and (redis.call('EXISTS', suspects, held_before, overdue) > 0 or
               redis.call('ZCOUNT', expiring, '-inf', now) > 0) then return nil end
  local front = redis.call('ZRANGE', turns, 0, 0)[1]
  if not front or string.find(front, '\2', 1, true) or chosen and string.find(chosen, '[%z\1\2]') then return nil end
  front = chosen or front
  local got, format = redis.call('HMGET', groups, '\0', front), string.format -- `..` takes twice as long for a number
  local first, next, size, active, turn, rest = string.match(got[2] or '', '^t (%S+) (%S+) (%S+) (%S+) (%S+)(.*)$')
  local field = first and front .. '\0' .. first
  local envelope = field and redis.call('HGET', grouped, field)
  if not envelope or rare and string.find(envelope, '"rmq%-[pu][un]') then return nil end
  local time, claimable, count = string.match(got[1], '^(%S+) (%S+) (%S+)$')
  o.mark = '.g'
  local token, deadline, limit = next_token(k, o), deadline_of(o, now), tonumber(policy)
  redis.call('HDEL', grouped, field)
  if rare then redis.call('ZREM', expiring, entry_of(front, first)) end
  redis.call('RPUSH', k.lease, token .. ' h ' .. now .. ' 0 0 ' .. o.owner, envelope)
  redis.call('ZADD', k.leases, deadline, o.id)
  size, claimable, active = size - 1, claimable - 1, tonumber(active)
  local place, limited, later = 't', limit > 0 and front ~= '', format('%d', turn + 100)
  if limited then
    active = active + 1
    redis.call('HSET', group_holds, front, '0 ' .. first)
  end
  if size == 0 or limited and active >= limit then
    place, claimable = size == 0 and 'n' or 'r', claimable - size
    redis.call('ZREM', turns, front)
    if size > 0 then redis.call('ZADD', resting, '+inf', front) end
  else
    redis.call('ZADD', turns, later, front)
  end
  local line = format('%d %d %d', math.max(time, turn), claimable, count - 1)
  if size == 0 and active == 0 then
    redis.call('HDEL', groups, front)
    redis.call('HSET', groups, '\0', line)
  else
    redis.call('HSET', groups, front, format('%s %d %s %d %d %s%s', place, first + 1, next, size, active, later, rest), '\0', line)
  end
  return claimed(token, deadline, 1, 1, 0, 0), {{envelope}}
end
