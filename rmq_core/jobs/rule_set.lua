-- Sets the rule of a repeatable job. An existing, unchanged rule keeps its next time.
-- KEYS: repeats  rules  alarm  fired
-- ARGV: key  rule  first_ms, when it fires first
-- Reply: 'set' or 'kept'.
-- include: alarm
if redis.call('HGET', rules, key) == rule and redis.call('ZSCORE', repeats, key) then return 'kept' end
redis.call('HSET', rules, key, rule)
redis.call('HDEL', fired, key)
redis.call('ZADD', repeats, first_ms, key)
alarmed(alarm)
return 'set'
