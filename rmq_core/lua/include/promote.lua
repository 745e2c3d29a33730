-- Moves messages whose delay is over to ready, at most 1,000 at a time. ready must be known to be a list.
local function promote(delayed, ready, now)
  if redis.call('ZCARD', delayed) == 0 then return 0 end
  local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, 1000)
  if #due == 0 then return 0 end
  redis.call('ZREM', delayed, unpack(due))
  redis.call('RPUSH', ready, unpack(due))
  return #due
end
