-- Records that a program's config differs from the stored settings; keeps the newest 50 records of a day.
-- KEYS: differing
-- ARGV: program, and in what it differs  keep_ms:number
-- Reply: nothing.
-- include: clock
local now = clock()
redis.call('ZADD', differing, now, program)
redis.call('ZREMRANGEBYSCORE', differing, '-inf', now - keep_ms)
redis.call('ZREMRANGEBYRANK', differing, 0, -51)
redis.call('PEXPIRE', differing, keep_ms)
