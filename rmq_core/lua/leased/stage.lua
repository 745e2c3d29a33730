-- Puts a chunk of messages aside, behind those of the same stage, which has the order of ready.
-- KEYS: 1 slot  2 stage
-- ARGV: 1 seq  2 slot ttl ms  3 messages the stage holds so far  4 ms after which it is forgotten
--       5 server time that their author has written before them, 0 for none  6... the messages
-- Reply: 'staged @<now ms>', 'lost' when the stage holds another number of messages, or 'superseded'.
-- include: clock
-- include: replay
-- include: stamped
local earlier = replay()
if earlier then return earlier end
if redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[3]) then return refuse('lost') end
local now = clock()
redis.call('RPUSH', KEYS[2], unpack(stamped(ARGV[5], now, 6, #ARGV)))
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return remember('staged @' .. now)
