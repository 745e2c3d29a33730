-- Ends the delay of a message: moves it to ready, or to its isolated group. It does not expire any more.
-- KEYS: slot  delayed  ready  waiters  wake
-- ARGV: seq  slot_ttl_ms  channel, of notifications  message
-- Reply: 'ready <1, or 0 if it is not delayed any more>' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: ready
-- include: notify
-- include: mark
-- include: timeless
-- include: set_delayed
local due, seen = tonumber(redis.call('ZSCORE', delayed, message) or '-1'), awaited(waiters, wake)
size_of() -- refuses a wrong type before anything is written
if due < 0 then return refuse('ready 0') end
local _, group = mark_of(message)
redis.call('PERSIST', delayed) -- a full server allows this write and the later ones, so the queue can drain
redis.call('ZREM', delayed, message)
local count, kept, history, body = parts_of(message)
if count then message = written(count, kept, history, '', timeless(body)) end
if group > 0 then set_delayed(delayed, -group, message) else append({message}) end
if seen then notify(waiters, wake, channel, clock(), seen, group > 0) end
return remember('ready 1')
