-- Returns when the next delay, rest or lease of a queue ends; nil for never.
-- KEYS: resting
local function next_due(delayed, leases)
  local a = redis.call('ZRANGEBYSCORE', delayed, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  local b = redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2]
  local c = redis.call('ZRANGEBYSCORE', resting, 0, '(+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  local due = math.min(tonumber(a) or math.huge, tonumber(b) or math.huge, tonumber(c) or math.huge)
  if due == math.huge then return nil end
  return due
end
