-- Counts what a queue holds; changes nothing.
-- KEYS: 1 ready  2 delayed  3 leases  4 dead  5 waiters
-- ARGV: 1 how many lease ids to list
-- Reply: {ready, delayed, leases, dead, paused, oldest enqueued ms or '', now ms, lease ids}.
-- include: clock
local oldest = redis.call('LINDEX', KEYS[1], 0)
return {redis.call('LLEN', KEYS[1]), redis.call('ZCARD', KEYS[2]), redis.call('ZCARD', KEYS[3]),
        redis.call('LLEN', KEYS[4]), redis.call('ZSCORE', KEYS[5], '=') and 1 or 0,
        oldest and string.match(oldest, '^%d+ (%d+) ') or '', clock(),
        redis.call('ZRANGE', KEYS[3], 0, tonumber(ARGV[1]) - 1)}
