-- Moves messages whose delay is over to ready, at most 1,000 at a time. ready must be known to be a list.
local function promote(delayed, ready, now)
  local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, 1000)
  if #due == 0 then return 0 end
  redis.call('ZREM', delayed, unpack(due))
  redis.call('LPUSH', ready, unpack(due))
  return #due
end
local function expired(leases, now)
  return redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 16)
end
local function next_due(delayed, leases)
  local a = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
  local b = redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2]
  local due = math.min(tonumber(a) or math.huge, tonumber(b) or math.huge)
  if due == math.huge then return nil end
  return due
end
