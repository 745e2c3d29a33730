-- Adds one message, if that is simple: append_one() returns whether it did.
local function has_room(max_ready) return redis.call('LLEN', ready) + redis.call('ZCARD', delayed) < max_ready end
local function append_one(message) return redis.call('RPUSH', ready, message) end
