-- Moves the oldest dead letters back to the queue with a fresh delivery budget; their history stays.
-- KEYS: 1 slot  2 dead  3 queue
-- ARGV: 1 seq  2 slot ttl ms  3 how many, at most
-- Reply: 'redriven <count>' or 'superseded'.
-- include: replay
-- include: entries
local earlier = replay()
if earlier then return earlier end
local n = math.min(tonumber(ARGV[3]), 1000)
local letters, fresh, bytes = redis.call('LRANGE', KEYS[2], -n, -1), {}, 0
for i = #letters, 1, -1 do
  bytes = bytes + #letters[i]
  if bytes > 8388608 and #fresh > 0 then break end
  local readable = id_of(letters[i]) ~= letters[i]
  fresh[#fresh + 1] = readable and '0' .. string.sub(letters[i], (string.find(letters[i], ' ', 1, true))) or letters[i]
end
if #fresh == 0 then return refuse('redriven 0') end
redis.call('LPUSH', KEYS[3], unpack(fresh))
redis.call('LTRIM', KEYS[2], 0, -(#fresh + 1))
return remember('redriven ' .. #fresh)
