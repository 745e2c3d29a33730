-- Gives the newest messages of a lease back as failed: to ready, isolated, to delayed, or to the dead letters.
-- KEYS: slot  leases  lease  settled  ready  delayed  dead  failed  waiters  wake  timer
-- ARGV: seq  slot_ttl_ms  lease_id  token  delay_ms:number  reason  max_deliveries:number, or 0
--       max_dead:number, cap of the dead letters  failed_cap:number, of the failed log  bell, a pub/sub channel
-- Reply: 'returned <count> <messages left in the lease> [<dead ids>]', 'lost' or 'superseded'.
-- include: clock
-- include: replay
-- include: head
-- include: ring
-- include: timer
-- include: give_back
-- include: failure
local earlier = replay()
if earlier then return earlier end
local head = held_by(lease, token)
if not head then return 'lost' end
local keys = {id = lease_id, leases = leases, lease = lease, settled = settled, ready = ready, delayed = delayed,
              dead = dead, failed = failed}
check_types(keys)
local now, seen = clock(), awaited(waiters, wake, timer)
local how = failure_of(head, lease, settled)
how.entry, how.due = table.concat({'nack', now, head.owner, reason}, '\t'), delay_ms > 0 and now + delay_ms or nil
how.max_deliveries, how.max_dead, how.failed_cap = max_deliveries, max_dead, failed_cap
redis.call('PERSIST', lease)
if head.state ~= 'n' and how.size > 1 then
  head.state = 'n'
  redis.call('LSET', lease, 0, head_text(head))
end
-- A quarter of what release moves, for each envelope is written anew; an eighth where each is sorted in, too.
local back, died, left = give_back(keys, how.due and 500 or 1000, how)
if seen and back > 0 and (not how.due or sooner(timer, how.due)) then ring(waiters, wake, bell, now, seen) end
return remember(table.concat({'returned', back + #died, left, unpack(died)}, ' '))
