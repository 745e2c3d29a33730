-- Returns when the next delay, rest or lease of a queue ends, or the next token comes; nil for never. The second result is
-- whether a waiting claim may sleep until then without missing anything for more than 0.1 s.
-- include: ready
local function next_due(delayed, leases)
  local a = redis.call('ZRANGEBYSCORE', delayed, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  local b = redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2]
  local token = queue_rate and token_at(queue_rate, '') or 0
  if a then a = math.max(a, token) end
  local due = math.min(tonumber(a) or math.huge, tonumber(b) or math.huge, next_claim() or math.huge)
  if due == math.huge then return nil end
  return due, rates ~= '' and (due == token or due - micros / 1000 < 100)
end
