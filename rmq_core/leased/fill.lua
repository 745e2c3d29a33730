-- Moves the next chunk of messages into a lease that is being filled.
-- KEYS: slot  ready  lease
-- ARGV: seq  slot_ttl_ms  token  count:number, messages the lease holds so far  most:number, messages to add
-- Reply: 'filled <count>' (fewer than `most` at the 8 MiB bound, 0 when ready is empty), 'lost' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: head
-- include: ready
-- include: take
local head = held_by(lease, token)
if not head or redis.call('LLEN', lease) - 1 ~= count then return 'lost' end
size_of()
redis.call('PERSIST', lease)
local taken = take(ready, lease, math.min(most, 4000))
if taken == 0 or taken == most then
  head.state = 'h'
  redis.call('LSET', lease, 0, head_text(head))
end
return remember('filled ' .. taken)
