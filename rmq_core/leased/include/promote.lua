-- Moves messages whose delay is over to ready, or to their isolated group, at most 1,000 at a time. Returns how many
-- messages are ready now, and how many are isolated.
-- include: mark
-- include: next_isolated
local function promote(delayed, ready, now)
  local size = redis.call('LLEN', ready) -- refuses a wrong type before anything is written
  if redis.call('ZCARD', delayed) == 0 then return size, 0 end
  local due, free = redis.call('ZRANGEBYSCORE', delayed, 0, now, 'LIMIT', 0, 1000), {}
  if #due > 0 then redis.call('ZREM', delayed, unpack(due)) end
  for i = 1, #due do
    local _, group = mark_of(due[i])
    if group > 0 then redis.call('ZADD', delayed, -group, due[i]) else free[#free + 1] = due[i] end
  end
  if #free > 0 then redis.call('RPUSH', ready, unpack(free)) end
  return size + #free, isolated_in(delayed)
end
