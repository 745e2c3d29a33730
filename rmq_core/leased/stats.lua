-- Counts what a queue holds; changes nothing.
-- KEYS: ready  delayed  leases  dead  waiters
-- ARGV: listed:number, how many lease ids to list
-- Reply: {ready with the isolated ones, delayed, leases, dead, paused, oldest enqueued ms or '', now ms, lease ids,
--   isolated}.
-- include: clock
-- include: ready
-- include: isolated_too
-- include: next_isolated
-- include: oldest
local isolated = isolated_in(delayed)
return {size_of() + isolated, redis.call('ZCARD', delayed) - isolated, redis.call('ZCARD', leases),
        redis.call('LLEN', dead), redis.call('ZSCORE', waiters, '=') and 1 or 0, oldest(ready, delayed, isolated), clock(),
        redis.call('ZRANGE', leases, 0, listed - 1), isolated + isolated_too()}
