-- Forgets everything under one key of the queue.
-- KEYS: 1 slot  2 list, sorted set or string  3 for ready, delayed
-- ARGV: 1 seq  2 slot ttl ms  3 which of these it is: list, zset or string; delayed or isolated, which share a sorted
--       set; or ready, which has isolated ones as well
-- Reply: 'removed <count>' or 'superseded'.
-- include: replay
-- include: isolated
local earlier = replay()
if earlier then return earlier end
local kind, removed = ARGV[3], 0
if kind == 'ready' then
  removed, kind = redis.call('LLEN', KEYS[2]) + isolated_in(KEYS[3]), 'list'
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(0')
elseif kind == 'isolated' then
  return refuse('removed ' .. redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(0'))
elseif kind == 'delayed' then
  if isolated_in(KEYS[2]) > 0 then return refuse('removed ' .. redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, '+inf')) end
  kind = 'zset'
end
if kind == 'list' then removed = math.max(removed, redis.call('LLEN', KEYS[2])) end
if kind == 'zset' then removed = redis.call('ZCARD', KEYS[2]) end
if kind == 'string' then redis.call('STRLEN', KEYS[2]) end -- refuses a wrong type
local gone = redis.call('UNLINK', KEYS[2])
return remember('removed ' .. math.max(removed, gone))
