-- Moves the oldest dead letters back to ready with a fresh delivery budget; their history stays.
-- KEYS: slot  dead  ready  waiters  wake
-- ARGV: seq  slot_ttl_ms  most:number  channel, of notifications
-- Reply: 'redriven <count>' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: ready
-- include: arrived
-- include: notify
-- include: absolve
local n, now, seen = math.min(most, 4000), clock(), awaited(waiters, wake)
local letters, fresh, bytes = redis.call('LRANGE', dead, -n, -1), {}, 0
for i = #letters, 1, -1 do
  bytes = bytes + #letters[i]
  if bytes > 8388608 and #fresh > 0 then break end
  fresh[#fresh + 1] = absolve(letters[i])
end
if #fresh == 0 then return refuse('redriven 0') end
append(fresh)
if arrived then arrived(fresh, fresh) end
redis.call('LTRIM', dead, 0, -(#fresh + 1))
if seen then notify(waiters, wake, channel, now, seen) end
return remember('redriven ' .. #fresh)
