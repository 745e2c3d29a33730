-- Takes a lease over by its id; under the same owner it is a hand-over and counts no delivery.
-- KEYS: slot  leases  heads  fence  done
-- ARGV: seq  slot_ttl_ms  lease_id  nonce  lease_ms:number  owner, or '' to keep it
--       if_owner?, the only owner from which it may be taken
-- Reply: 'taken <token> <deadline> <count> <takeovers> <owner>', 'settled <count>', 'owned <owner>', 'missing' or
--   'superseded'.
-- include: clock
-- include: replay
-- include: lease
local earlier = replay()
if earlier then return earlier end
local finished, head = redis.call('GET', done), lease_head(heads, lease_id)
if finished then return refuse('settled ' .. finished) end
if not head then return refuse('missing') end
if if_owner and head.owner ~= if_owner then return refuse('owned ' .. head.owner) end
local deadline = clock() + lease_ms
redis.call('PERSIST', heads) -- Redis allows this write at maxmemory, and then every later write of the script
if owner ~= '' and owner ~= head.owner then head.owner, head.takeovers = owner, head.takeovers + 1 end
head.token = redis.call('INCR', fence) .. '.' .. nonce
keep_head(heads, lease_id, head)
redis.call('ZADD', leases, deadline, lease_id)
return remember(table.concat({'taken', head.token, deadline, head.count, head.takeovers, head.owner}, ' '))
