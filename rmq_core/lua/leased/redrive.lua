-- Moves the oldest dead letters back to ready with a fresh delivery budget; their history stays.
-- KEYS: 1 slot  2 dead  3 ready  4 waiters  5 wake
-- ARGV: 1 seq  2 slot ttl ms  3 how many, at most  4 bell channel
-- Reply: 'redriven <count>' or 'superseded'.
-- include: clock
-- include: replay
-- include: ring
-- include: recount
-- include: absolve
local earlier = replay()
if earlier then return earlier end
local n, now, seen = math.min(tonumber(ARGV[3]), 4000), clock(), awaited(KEYS[4], KEYS[5])
local dead, fresh, bytes = redis.call('LRANGE', KEYS[2], -n, -1), {}, 0
for i = #dead, 1, -1 do
  bytes = bytes + #dead[i]
  if bytes > 8388608 and #fresh > 0 then break end
  fresh[#fresh + 1] = absolve(dead[i])
end
if #fresh == 0 then return refuse('redriven 0') end
redis.call('RPUSH', KEYS[3], unpack(fresh))
redis.call('LTRIM', KEYS[2], 0, -(#fresh + 1))
if seen then ring(KEYS[4], KEYS[5], ARGV[4], now, seen) end
return remember('redriven ' .. #fresh)
