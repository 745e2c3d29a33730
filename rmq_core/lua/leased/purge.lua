-- Forgets everything under one key of the queue, or some messages of a list or sorted set.
-- KEYS: 1 slot  2 list, sorted set or string
-- ARGV: 1 seq  2 slot ttl ms  3... the entries to remove, everything when there are none
-- Reply: 'removed <count>' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
local kind, removed = redis.call('TYPE', KEYS[2]).ok, 0
if #ARGV == 2 then
  if kind == 'list' then removed = redis.call('LLEN', KEYS[2]) end
  if kind == 'zset' then removed = redis.call('ZCARD', KEYS[2]) end
  local gone = redis.call('UNLINK', KEYS[2])
  return remember('removed ' .. math.max(removed, gone))
end
for i = 3, #ARGV do
  if kind == 'list' then removed = removed + redis.call('LREM', KEYS[2], 1, ARGV[i]) end
  if kind == 'zset' then removed = removed + redis.call('ZREM', KEYS[2], ARGV[i]) end
end
return refuse('removed ' .. removed)
