-- Deletes a repeatable job; the jobs that it has already added stay.
-- KEYS: repeats  rules  fired
-- ARGV: key
-- Reply: how many were deleted, 1 or 0.
redis.call('ZREM', repeats, key)
redis.call('HDEL', fired, key)
return redis.call('HDEL', rules, key)
