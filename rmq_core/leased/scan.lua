-- Reads a slice of a list or sorted set by index; changes nothing.
-- KEYS: key, list or sorted set
-- ARGV: first:number, index  last:number, index
-- Reply: the entries.
-- include: entries
if redis.call('TYPE', key).ok == 'zset' then return redis.call('ZRANGE', key, first, last) end
return entries(key, first, last)
