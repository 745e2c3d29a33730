-- Gives the newest messages of a lease back untouched: no delivery is counted.
-- KEYS: slot  leases  lease  settled  ready  delayed  dead  failed  waiters  wake
-- ARGV: seq  slot_ttl_ms  lease_id  token  bell, a pub/sub channel
-- Reply: 'returned <count> <messages left in the lease>', 'lost' or 'superseded'.
-- include: clock
-- include: replay
-- include: head
-- include: ring
-- include: give_back
-- include: untouched
local earlier = replay()
if earlier then return earlier end
local head = held_by(lease, token)
if not head then return 'lost' end
local keys = {id = lease_id, leases = leases, lease = lease, settled = settled, ready = ready, delayed = delayed,
              dead = dead, failed = failed}
check_types(keys)
local now, seen = clock(), awaited(waiters, wake)
local how = untouched(head, lease)
redis.call('PERSIST', lease)
if head.state ~= 'l' then
  head.state, head.returned = 'l', head.returned + 1
  redis.call('LSET', lease, 0, head_text(head))
end
local back, _, left = give_back(keys, 4000, how)
if seen and back > 0 then ring(waiters, wake, bell, now, seen) end
return remember('returned ' .. back .. ' ' .. left)
