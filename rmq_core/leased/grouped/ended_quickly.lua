-- Called when a lease has ended that held one group, or none; returns false where ended() has to do more. It uses `policy`,
-- which check_layout has read.
-- KEYS: groups  turns  resting  held_before  waiters  ended_holds, of the lease that ended
-- include: check_layout
local function ended_quickly()
  local held = redis.call('HKEYS', ended_holds)
  if #held == 0 then return redis.call('EXISTS', held_before) == 0 end
  if #held > 1 or not string.find(policy, '^%d+$') or redis.call('EXISTS', held_before, waiters) > 0 then return false end
  local name, format, got = held[1], string.format, redis.call('HMGET', groups, '\0', held[1])
  local place, deque, size, active, turn = string.match(got[2] or '', '^(%a) (%S+ %S+) (%S+) (%S+) (%S+) 0 0$')
  if not place or place == 's' then return false end
  local time, claimable, count = string.match(got[1], '^(%S+) (%S+) (%S+)$')
  redis.call('UNLINK', ended_holds)
  if place == 'r' then
    place, turn, claimable = 't', format('%d', math.max(turn, time + 100)), format('%d', claimable + size)
    redis.call('ZREM', resting, name)
    redis.call('ZADD', turns, turn, name)
  end
  if size == '0' and active == '1' then redis.call('HDEL', groups, name)
  else
    redis.call('HSET', groups, name, format('%s %s %s %d %s 0 0', place, deque, size, active - 1, turn),
               '\0', time .. ' ' .. claimable .. ' ' .. count)
  end
  return true
end
