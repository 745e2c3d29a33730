-- Forgets everything under one key of the queue, or some messages of a sorted set or of a list: of equal ones, the newest.
-- KEYS: 1 slot  2 list, sorted set or string
-- ARGV: 1 seq  2 slot ttl ms  3 which of these it is: list, zset or string  4... the entries to remove, everything when
--       there are none
-- Reply: 'removed <count>' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
local kind, removed = ARGV[3], 0
if #ARGV == 3 then
  if kind == 'list' then removed = redis.call('LLEN', KEYS[2]) end
  if kind == 'zset' then removed = redis.call('ZCARD', KEYS[2]) end
  if kind == 'string' then redis.call('STRLEN', KEYS[2]) end -- refuses a wrong type
  local gone = redis.call('UNLINK', KEYS[2])
  return remember('removed ' .. math.max(removed, gone))
end
for i = 4, #ARGV do
  if kind == 'list' then removed = removed + redis.call('LREM', KEYS[2], -1, ARGV[i]) end
  if kind == 'zset' then removed = removed + redis.call('ZREM', KEYS[2], ARGV[i]) end
end
return refuse('removed ' .. removed)
