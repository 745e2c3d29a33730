-- Reads a slice of a list or sorted set by index; changes nothing.
-- KEYS: 1 list or sorted set
-- ARGV: 1 first index  2 last index
-- Reply: the entries.
if redis.call('TYPE', KEYS[1]).ok == 'zset' then return redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2]) end
return redis.call('LRANGE', KEYS[1], ARGV[1], ARGV[2])
