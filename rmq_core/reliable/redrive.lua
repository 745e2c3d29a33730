-- Moves the oldest dead letters back to the queue with a fresh delivery budget; their history stays.
-- KEYS: slot  dead  queue
-- ARGV: seq  slot_ttl_ms  most:number
-- Reply: 'redriven <count>' or 'superseded'.
-- include: replay
-- include: entries
-- include: forgiven
local earlier = replay()
if earlier then return earlier end
local n = math.min(most, 1000)
local letters, fresh, bytes = redis.call('LRANGE', dead, -n, -1), {}, 0
for i = #letters, 1, -1 do
  bytes = bytes + #letters[i]
  if bytes > 8388608 and #fresh > 0 then break end
  fresh[#fresh + 1] = forgiven(letters[i])
end
if #fresh == 0 then return refuse('redriven 0') end
redis.call('LPUSH', queue, unpack(fresh))
redis.call('LTRIM', dead, 0, -(#fresh + 1))
return remember('redriven ' .. #fresh)
