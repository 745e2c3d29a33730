-- Sets the rule of a repeatable job. A rule that is there and unchanged keeps its place in time.
-- KEYS: 1 repeats  2 repeat  3 alarm  4 fired
-- ARGV: 1 key  2 rule  3 first time it fires, ms
-- Reply: 'set' or 'kept'.
-- include: jobs_alarm
if redis.call('HGET', KEYS[2], ARGV[1]) == ARGV[2] and redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 'kept' end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
alarmed(KEYS[3])
return 'set'
