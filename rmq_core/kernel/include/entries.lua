-- Reads entries of a list, which may be the messages that are ready, and removes one of equal entries.
local function entries(list, lo, hi) return redis.call('LRANGE', list, lo, hi) end
local function count_of(list) return redis.call('LLEN', list) end
local function drop_entry(list, entry, newest) return redis.call('LREM', list, newest and -1 or 1, entry) end
