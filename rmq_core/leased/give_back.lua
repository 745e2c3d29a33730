-- Nacks or releases the newest messages of a lease. Nacked messages count a delivery and go to ready, to an
-- isolated group, to delayed or to the dead letters; released messages return to where they came from.
-- KEYS: slot  leases  lease  settled  ready  delayed  dead  failed  waiters  wake  timer
-- ARGV: seq  slot_ttl_ms  lease_id  token  verb, nack or release  delays, of nack_delays.lua  reason
--       max_deliveries:number, or 0  max_dead:number, cap of the dead letters  failed_cap:number, of the failed log
--       breaker, of breaker.lua  channel, of notifications
-- Reply: 'returned <count> <messages left in the lease> [<dead ids>]' and what reported() adds, 'lost' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: head
-- include: notify
-- include: timer
-- include: give_back
local head = held_by(lease, token)
if not head then return 'lost' end
local keys = {id = lease_id, leases = leases, lease = lease, settled = settled, ready = ready, delayed = delayed,
              dead = dead, failed = failed}
check_types(keys)
local now, seen = clock(), awaited(waiters, wake, timer)
local state, most, how = 'l', 4000, nil
if verb == 'release' then
-- include: untouched
  how = untouched(head, lease)
  if head.state ~= state then head.returned = head.returned + 1 end
else
-- include: failure
  how = failure_of(head, lease, settled)
  how.entry, how.waits, how.now = table.concat({'nack', now, head.owner, reason}, '\t'), waits_of(delays), now
  how.max_deliveries, how.max_dead, how.failed_cap = max_deliveries, max_dead, failed_cap
  -- A quarter of what release moves, because each envelope is rewritten; an eighth if each is also sorted in.
  state, most = 'n', how.waits and 500 or 1000
end
redis.call('PERSIST', lease)
if head.state ~= state and how.size > 1 then
  head.state = state
  redis.call('LSET', lease, 0, head_text(head))
end
local back, died, left = give_back(keys, most, how)
if seen and back > 0 and sooner(timer, how.soonest) then notify(waiters, wake, channel, now, seen, how.soonest > 0) end
return remember(reported(table.concat({'returned', back + #died, left, unpack(died)}, ' ')))
