-- Takes a queue that holds nothing off the list of queues; changes nothing otherwise.
-- KEYS: 1 ready  2 delayed  3 leases  4 dead  5 completed  6 failed  7 names of all queues, left out on a cluster, where
--   they live in another slot
-- ARGV: 1 the name
-- Reply: {ready, isolated, delayed, leases, dead, completed, failed}: how many there are of each.
-- include: isolated
local isolated = isolated_in(KEYS[2])
local held = {redis.call('LLEN', KEYS[1]), isolated, redis.call('ZCARD', KEYS[2]) - isolated, redis.call('ZCARD', KEYS[3]),
              redis.call('LLEN', KEYS[4]), redis.call('LLEN', KEYS[5]), redis.call('LLEN', KEYS[6])}
for i = 1, 7 do
  if held[i] > 0 then return held end
end
if KEYS[7] then redis.call('SREM', KEYS[7], ARGV[1]) end
return held
