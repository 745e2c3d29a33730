-- Deletes everything under one key of the queue.
-- KEYS: slot  key, to delete: a list, sorted set or string  delayed?, only if kind is ready
-- ARGV: seq  slot_ttl_ms  kind, what to delete: list, zset or string, the whole of such a key; delayed or
--         isolated, one half of the sorted set `key`; ready, the list `key` and the isolated messages in `delayed`
-- Reply: 'removed <count>' or 'superseded'.
-- include: replay
-- include: next_isolated
local earlier = replay()
if earlier then return earlier end
local removed = 0
if kind == 'ready' then
  removed, kind = redis.call('LLEN', key) + isolated_in(delayed), 'list'
  redis.call('ZREMRANGEBYSCORE', delayed, '-inf', '(0')
elseif kind == 'isolated' then
  return refuse('removed ' .. redis.call('ZREMRANGEBYSCORE', key, '-inf', '(0'))
elseif kind == 'delayed' then
  if isolated_in(key) > 0 then return refuse('removed ' .. redis.call('ZREMRANGEBYSCORE', key, 0, '+inf')) end
  kind = 'zset'
end
if kind == 'list' then removed = math.max(removed, redis.call('LLEN', key)) end
if kind == 'zset' then removed = redis.call('ZCARD', key) end
if kind == 'string' then redis.call('STRLEN', key) end -- refuses a wrong type
local gone = redis.call('UNLINK', key)
return remember('removed ' .. math.max(removed, gone))
