-- Tells how much work is ready and how old its oldest message is; moves due messages to ready, claims nothing.
-- KEYS: 1 ready  2 delayed  3 leases  4 waiters
-- ARGV: 1 ms for which to arm the bell, 0 for not at all
-- Reply: {ready, oldest enqueued ms or '', now ms, next due ms or '', expired lease ids}.
-- include: clock
-- include: expired
-- include: promote
-- include: next_due
local now = clock()
local late = expired(KEYS[3], now)
redis.call('LLEN', KEYS[1])
redis.call('ZREMRANGEBYSCORE', KEYS[4], '(0', '(' .. now)
promote(KEYS[2], KEYS[1], now)
if ARGV[1] ~= '0' then redis.call('ZADD', KEYS[4], now + tonumber(ARGV[1]), '*') end
local oldest = redis.call('LINDEX', KEYS[1], 0)
local due = next_due(KEYS[2], KEYS[3])
return {redis.call('LLEN', KEYS[1]), oldest and string.match(oldest, '^%d+ (%d+) ') or '', now,
        due or '', late}
