-- Accepts the messages that its call appended to ready, all or none.
-- A chained chunk is sent before the reply to the previous chunk; it is accepted only if that chunk was.
-- KEYS: slot  ready  delayed  waiters  wake  previous?, slot of the previous chunk, if chained
-- ARGV: seq  slot_ttl_ms  channel, of notifications  max_ready:number, or 0  count:number, of the messages
--       stamp_ms:number, server time that the publisher wrote into their stamps  previous_seq?
-- Reply: 'accepted 0 @<now ms> [!, see in_map]', 'full <now ms>', 'stale @<now ms>', 'unchained', 'moved' or
--   'superseded'.
-- include: clock
-- include: replay
-- include: notify
-- include: appended
local length = redis.call('LLEN', ready) -- refuses a wrong type, to which nothing was appended
local earlier = replay()
if earlier then return taken_back(ready, count, earlier) end
-- include: in_map
if moved then return taken_back(ready, count, refuse('moved')) end
local before = previous and (redis.call('GET', previous) or '')
if before and string.sub(before, 1, #previous_seq + 9) ~= previous_seq .. ' accepted' then
  return taken_back(ready, count, 'unchained')
end
local known, seen = pcall(awaited, waiters, wake)
local held = redis.pcall('ZCARD', delayed)
if not known or type(held) ~= 'number' then
  taken_back(ready, count)
  return redis.error_reply('WRONGTYPE a key of the queue holds another kind of value')
end
local now = clock()
if max_ready > 0 and length + held > max_ready then return taken_back(ready, count, refuse('full ' .. now)) end
if is_stale(stamp_ms, now) then return taken_back(ready, count, refuse('stale @' .. now)) end
if seen then notify(waiters, wake, channel, now, seen) end
return remember('accepted 0 @' .. now .. (called and seen and called() or ''))
