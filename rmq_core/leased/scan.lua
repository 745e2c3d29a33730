-- Reads a slice of a list or sorted set by index; changes nothing.
-- KEYS: key, list or sorted set
-- ARGV: first, index  last, index
-- Reply: the entries.
if redis.call('TYPE', key).ok == 'zset' then return redis.call('ZRANGE', key, first, last) end
return redis.call('LRANGE', key, first, last)
