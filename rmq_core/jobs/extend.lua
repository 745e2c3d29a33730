-- Moves a lease's deadline, never to an earlier time.
-- KEYS: leases  heads
-- ARGV: lease_id  token  lease_ms:number
-- Reply: the deadline in ms, or 'lost'.
-- include: clock
-- include: lease
if not lease_of(heads, lease_id, token) then return 'lost' end
redis.call('PERSIST', heads) -- Redis allows this write at maxmemory, and then every later write of the script
redis.call('ZADD', leases, 'XX', 'GT', clock() + lease_ms, lease_id)
return string.format('%.0f', redis.call('ZSCORE', leases, lease_id))
