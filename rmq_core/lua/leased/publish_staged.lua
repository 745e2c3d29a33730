-- Decides that stages are published, all or none: from here on somebody will make them ready.
-- KEYS: 1 slot  2 leases  3 record of the publication  4 sink  5 ready  6 delayed  7... the stages
-- ARGV: 1 seq  2 slot ttl ms  3 the publication as a member of the leases  4 number of the batch, '' without a sink
--       5 ms for which the sink is remembered  6 ms after which others finish it  7 max ready or 0
--       8... for each stage '<messages> <1 when plain> <id>'
-- Reply: 'committed', 'before' (that batch or one of these stages was published), 'gone <id of a stage that is not
--   whole>', 'full <now ms>' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
local last = redis.call('GET', KEYS[4])
if ARGV[4] ~= '' and last and tonumber(last) >= tonumber(ARGV[4]) then return refuse('before') end
local now, max, total = clock(), tonumber(ARGV[7]), 0
for i = 7, #KEYS do
  local count, _, id = string.match(ARGV[i + 1], '^(%d+) (%d) (.*)$')
  local held, ttl = redis.call('LLEN', KEYS[i]), redis.call('PTTL', KEYS[i])
  if ttl == -1 then return refuse('before') end
  if held ~= tonumber(count) then return refuse('gone ' .. id) end
  total = total + held
end
if max > 0 and redis.call('LLEN', KEYS[5]) + redis.call('ZCARD', KEYS[6]) + total > max then
  return refuse('full ' .. now)
end
redis.call('ZCARD', KEYS[2])
if total > 0 then
  for i = 7, #KEYS do redis.call('RPUSH', KEYS[3], ARGV[i + 1]) end
  for i = 7, #KEYS do redis.call('PERSIST', KEYS[i]) end
  redis.call('ZADD', KEYS[2], now + tonumber(ARGV[6]), ARGV[3])
end
if ARGV[4] ~= '' then redis.call('SET', KEYS[4], ARGV[4], 'PX', ARGV[5]) end
return remember('committed')
