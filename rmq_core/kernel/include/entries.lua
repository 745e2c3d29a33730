-- Reads entries of a list, which may be the messages that are ready.
local function entries(list, lo, hi) return redis.call('LRANGE', list, lo, hi) end
local function count_of(list) return redis.call('LLEN', list) end
