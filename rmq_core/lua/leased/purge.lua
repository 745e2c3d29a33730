-- Deletes everything under one key of the queue.
-- KEYS: slot  key, list, sorted set or string  delayed?, for ready
-- ARGV: seq  slot_ttl_ms  kind, what `key` is: list, zset or string; delayed or isolated, which share a sorted
--         set; or ready, which has isolated ones as well
-- Reply: 'removed <count>' or 'superseded'.
-- include: replay
-- include: isolated
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
