-- Reads the settings stored with a queue, and records that a program uses it; keeps the newest 1,000 records of a day.
-- KEYS: settings  clients
-- ARGV: client  keep_ms:number
-- Reply: the settings, or nil. A server that refuses the record, as at `maxmemory`, still tells the settings.
-- include: clock
local now = clock()
redis.pcall('ZADD', clients, now, client)
redis.pcall('ZREMRANGEBYSCORE', clients, '-inf', now - keep_ms)
redis.pcall('ZREMRANGEBYRANK', clients, 0, -1001)
redis.pcall('PEXPIRE', clients, keep_ms)
return redis.call('GET', settings)
