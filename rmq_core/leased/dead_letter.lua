-- Makes a dead letter of a ready, isolated or delayed message, as an operator wants it; its key stays taken, as that of any.
-- KEYS: slot  key, list or sorted set that has the message  dead
-- ARGV: seq  slot_ttl_ms  kind, zset or, for a list, oldest  max_dead:number, cap of the dead letters  owner, the operator
--       reason  message
-- Reply: 'dead <1, or 0 if it is not there any more>' and what reported() adds, or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: envelope
-- include: trimmed
-- include: drop_entry
redis.call('LLEN', dead) -- refuses a wrong type before anything is written
redis.call('PERSIST', slot) -- a full server allows this write and the later ones, so the queue can be drained
if drop_entry(key, message, kind, 'dead') == 0 then return remember('dead 0') end
local count, kept, history, body = parts_of(message)
local line = table.concat({'moved', clock(), owner, reason}, '\t') .. '\n'
cut(dead, redis.call('LPUSH', dead, count and written(count, kept, history, line, body) or message), max_dead)
return remember(reported('dead 1'))
