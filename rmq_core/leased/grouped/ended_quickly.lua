-- Called when a lease has ended that held one group, or none; returns false where ended() has to do more.
-- KEYS: ready  groups  turns  resting  held_before  waiters  ended_holds, of the lease that ended
local function ended_quickly()
  local held, policy = redis.call('HKEYS', ended_holds), redis.call('GET', ready)
  if not policy or redis.call('EXISTS', held_before) > 0 then return false end
  if #held == 0 then return true end
  if #held > 1 or not string.find(policy, '^%d+$') or redis.call('ZCARD', waiters) > 0 then return false end
  local name, got = held[1], redis.call('HMGET', groups, '\0', held[1])
  local place, first, next, size, active, turn = string.match(got[2] or '', '^(%a) (%S+) (%S+) (%S+) (%S+) (%S+) 0 0$')
  if not place or place == 's' then return false end
  local time, claimable, count = string.match(got[1], '^(%S+) (%S+) (%S+)$')
  redis.call('UNLINK', ended_holds)
  if place == 'r' then
    place, turn, claimable = 't', math.max(turn, time + 100), claimable + size
    redis.call('ZREM', resting, name)
    redis.call('ZADD', turns, turn, name)
  end
  active = active - 1
  if size == '0' and active == 0 then redis.call('HDEL', groups, name)
  else
    local record = table.concat({place, first, next, size, active, turn}, ' ') .. ' 0 0'
    redis.call('HSET', groups, name, record, '\0', time .. ' ' .. claimable .. ' ' .. count)
  end
  return true
end
