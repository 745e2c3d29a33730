-- Removes an empty queue from the list of queues, its history, journal and settings; changes nothing otherwise.
-- KEYS: ready  delayed  leases  dead  completed  failed  history  journal  settings  differing  clients  names?, set of all queue names, omitted on a
--         cluster, where it is in another slot
-- ARGV: name
-- Reply: {ready, isolated, delayed, leases, dead, completed, failed}: how many there are of each; {} if the queue has other
--   shards now.
-- include: ready
-- include: next_isolated
-- include: leave_map
local isolated = isolated_in(delayed)
local held = {size_of(), isolated, redis.call('ZCARD', delayed) - isolated, redis.call('ZCARD', leases),
              redis.call('LLEN', dead), redis.call('LLEN', completed), redis.call('LLEN', failed)}
for i = 1, 7 do
  if held[i] > 0 then return held end
end
if not leave_map() then return {} end
redis.call('UNLINK', history, journal, settings, differing, clients)
if names then redis.call('SREM', names, name) end
return held
