-- Moves the next chunk of messages into a lease that is being filled.
-- KEYS: slot  ready  lease
-- ARGV: seq  slot_ttl_ms  token  count:number, messages the lease holds so far  most:number, messages to add
--       from_groups?, as in claim.lua
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
local chosen = from_groups and lines_of(from_groups)
local taken = from_groups and not chosen and 0 or take(ready, lease, math.min(most, 4000), nil, chosen)
if taken == 0 or taken == most then
  head.state = 'h'
  redis.call('LSET', lease, 0, head_text(head))
end
return remember('filled ' .. taken)
