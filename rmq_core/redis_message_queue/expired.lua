-- Lists the leases that are expired; changes nothing.
-- KEYS: leases
-- ARGV: most
-- Reply: their ids, the earliest deadline first.
-- include: clock
return redis.call('ZRANGEBYSCORE', leases, '-inf', clock(), 'LIMIT', 0, most)
