-- Forgets a repeatable job; what it added already stays.
-- KEYS: repeats  rules  fired
-- ARGV: key
-- Reply: 1 or 0, how many.
redis.call('ZREM', repeats, key)
redis.call('HDEL', fired, key)
return redis.call('HDEL', rules, key)
