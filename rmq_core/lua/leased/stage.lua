-- Puts a chunk of messages aside, behind those of the same stage.
-- KEYS: 1 slot  2 stage
-- ARGV: 1 seq  2 slot ttl ms  3 messages the stage holds so far  4 ms after which it is forgotten  5... the messages
-- Reply: 'staged', 'lost' when the stage holds another number of messages, or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
if redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[3]) then return refuse('lost') end
redis.call('RPUSH', KEYS[2], unpack(ARGV, 5))
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return remember('staged')
