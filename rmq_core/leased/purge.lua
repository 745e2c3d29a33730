-- Deletes everything under one key of the queue.
-- KEYS: slot  key, to delete: a list, sorted set or string  delayed?, only if kind is ready
-- ARGV: seq  slot_ttl_ms  kind, what to delete: list, zset or string, the whole of such a key; delayed or
--         isolated, one half of the sorted set `key`; ready, the list `key` and the isolated messages in `delayed`
-- Reply: 'removed <count>' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: next_isolated
-- include: emptied
local removed = 0
redis.call('PERSIST', slot) -- a full server allows this write and the later ones, so the queue can be emptied
if kind == 'ready' then
  local isolated = isolated_in(delayed)
  if forgotten then forgotten(delayed, '-inf', '(0') end
  removed = emptied() + isolated
  redis.call('ZREMRANGEBYSCORE', delayed, '-inf', '(0')
  return remember('removed ' .. removed)
elseif kind == 'isolated' then
  if forgotten then forgotten(key, '-inf', '(0') end
  return refuse('removed ' .. redis.call('ZREMRANGEBYSCORE', key, '-inf', '(0'))
elseif kind == 'delayed' then
  if forgotten then forgotten(key, 0, '+inf') end
  if isolated_in(key) > 0 then return refuse('removed ' .. redis.call('ZREMRANGEBYSCORE', key, 0, '+inf')) end
  kind = 'zset'
end
if kind == 'list' then removed = redis.call('LLEN', key) end
if kind == 'zset' then removed = redis.call('ZCARD', key) end
if kind == 'string' then redis.call('STRLEN', key) end -- refuses a wrong type
local gone = redis.call('UNLINK', key)
return remember('removed ' .. math.max(removed, gone))
