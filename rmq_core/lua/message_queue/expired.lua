-- Lists the leases that are expired; changes nothing.
-- KEYS: 1 leases
-- ARGV: 1 how many, at most
-- Reply: their ids, the earliest deadline first.
-- include: clock
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', clock(), 'LIMIT', 0, tonumber(ARGV[1]))
