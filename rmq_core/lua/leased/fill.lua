-- Moves the next chunk of messages into a lease that is being filled.
-- KEYS: 1 slot  2 ready  3 lease
-- ARGV: 1 seq  2 slot ttl ms  3 token  4 messages the lease holds so far  5 messages to add, at most
-- Reply: 'filled <count>' (less than asked at the 8 MiB bound, 0 when ready is empty), 'lost' or 'superseded'.
-- include: replay
-- include: head
-- include: fitting
-- include: take
local earlier = replay()
if earlier then return earlier end
local head = held_by(KEYS[3], ARGV[3])
if not head or redis.call('LLEN', KEYS[3]) - 1 ~= tonumber(ARGV[4]) then return 'lost' end
redis.call('LLEN', KEYS[2])
redis.call('PERSIST', KEYS[3])
local taken = take(KEYS[2], KEYS[3], math.min(tonumber(ARGV[5]), 4000))
if taken == 0 or taken == tonumber(ARGV[5]) then
  head.state = 'h'
  redis.call('LSET', KEYS[3], 0, head_text(head))
end
return remember('filled ' .. taken)
