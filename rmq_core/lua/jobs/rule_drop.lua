-- Forgets a repeatable job; what it added already stays.
-- KEYS: 1 repeats  2 repeat  3 fired
-- ARGV: 1 key
-- Reply: 1 or 0, how many.
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
return redis.call('HDEL', KEYS[2], ARGV[1])
