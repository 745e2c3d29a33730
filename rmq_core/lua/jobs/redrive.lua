-- Moves the oldest dead letters back to the stream with a fresh budget of attempts; their history stays.
-- KEYS: 1 slot  2 dead  3 ready  4 events
-- ARGV: 1 seq  2 slot ttl ms  3 how many, at most  4 events cap
-- Reply: 'redriven <count>' or 'superseded'.
-- include: replay
-- include: recount
-- include: jobs_entry
local earlier = replay()
if earlier then return earlier end
local n = math.min(tonumber(ARGV[3]), 1000)
local oldest, ids, bytes = redis.call('LRANGE', KEYS[2], -n, -1), {}, 0
redis.call('XLEN', KEYS[3])
redis.call('XLEN', KEYS[4])
for i = #oldest, 1, -1 do
  bytes = bytes + #oldest[i]
  if bytes > 8388608 and #ids > 0 then break end
  local fresh = '0' .. string.sub(oldest[i], (string.find(oldest[i], ' ', 1, true)))
  redis.call('XADD', KEYS[3], '*', 'e', fresh)
  ids[#ids + 1] = message_id(fresh)
end
if #ids == 0 then return refuse('redriven 0') end
redis.call('LTRIM', KEYS[2], 0, -(#ids + 1))
tell(KEYS[4], tonumber(ARGV[4]), 'waiting', ids)
return remember('redriven ' .. #ids)
