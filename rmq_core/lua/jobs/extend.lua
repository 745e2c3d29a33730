-- Moves a lease's deadline, never to an earlier time.
-- KEYS: 1 leases  2 heads
-- ARGV: 1 lease id  2 token  3 lease ms
-- Reply: the deadline in ms, or 'lost'.
-- include: clock
-- include: jobs_lease
if not lease_of(KEYS[2], ARGV[1], ARGV[2]) then return 'lost' end
redis.call('PERSIST', KEYS[2]) -- a full server denies no first write of this kind
redis.call('ZADD', KEYS[1], 'XX', 'GT', clock() + tonumber(ARGV[3]), ARGV[1])
return string.format('%.0f', redis.call('ZSCORE', KEYS[1], ARGV[1]))
