-- Moves the oldest dead letters back to the stream with a fresh budget of attempts; their history stays.
-- KEYS: slot  dead  ready  events
-- ARGV: seq  slot_ttl_ms  most:number, how many at most  events_cap:number
-- Reply: 'redriven <count>' or 'superseded'.
-- include: replay
-- include: envelope
-- include: jobs_entry
local earlier = replay()
if earlier then return earlier end
local n = math.min(most, 1000)
local oldest, ids, bytes = redis.call('LRANGE', dead, -n, -1), {}, 0
redis.call('XLEN', ready) -- refuses a wrong type before anything is written
redis.call('XLEN', events)
for i = #oldest, 1, -1 do
  bytes = bytes + #oldest[i]
  if bytes > 8388608 and #ids > 0 then break end
  local _, fresh = recount(oldest[i], {add = -deliveries(oldest[i]), entry = ''})
  redis.call('XADD', ready, '*', 'e', fresh)
  ids[#ids + 1] = message_id(fresh)
end
if #ids == 0 then return refuse('redriven 0') end
redis.call('LTRIM', dead, 0, -(#ids + 1))
tell(events, events_cap, 'waiting', ids)
return remember('redriven ' .. #ids)
