-- Deletes a repeatable job; the jobs that it has already added stay.
-- KEYS: repeats  rules  fired
-- ARGV: key
-- Reply: 1 or 0, how many.
redis.call('ZREM', repeats, key)
redis.call('HDEL', fired, key)
return redis.call('HDEL', rules, key)
