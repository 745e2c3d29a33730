-- Appends a chunk of messages to a stage, which keeps them in the order of ready.
-- KEYS: slot  stage
-- ARGV: seq  slot_ttl_ms  count:number, messages the stage holds so far  keep_ms, after which it expires
--       stamp_ms, server time that the publisher wrote into their stamps, 0 for none  messages...
-- Reply: 'staged @<now ms>', 'lost' when the stage holds another number of messages, or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: stamp
if redis.call('LLEN', stage) ~= count then return refuse('lost') end
local now = clock()
redis.call('RPUSH', stage, unpack(stamped(stamp_ms, now, messages)))
redis.call('PEXPIRE', stage, keep_ms)
return remember('staged @' .. now)
