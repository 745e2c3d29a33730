-- Counts what a queue holds; changes nothing.
-- KEYS: 1 ready  2 delayed  3 leases  4 dead  5 waiters
-- ARGV: 1 how many lease ids to list
-- Reply: {ready with the isolated ones, delayed, leases, dead, paused, oldest enqueued ms or '', now ms, lease ids, isolated}.
-- include: clock
-- include: isolated
-- include: oldest
local isolated = isolated_in(KEYS[2])
return {redis.call('LLEN', KEYS[1]) + isolated, redis.call('ZCARD', KEYS[2]) - isolated, redis.call('ZCARD', KEYS[3]),
        redis.call('LLEN', KEYS[4]), redis.call('ZSCORE', KEYS[5], '=') and 1 or 0, oldest(KEYS[1], KEYS[2], isolated), clock(),
        redis.call('ZRANGE', KEYS[3], 0, tonumber(ARGV[1]) - 1), isolated}
