-- Shows entries at one end of a list; changes nothing.
-- KEYS: list
-- ARGV: count:number, above 0 from the right end, below 0 from the left end
-- Reply: the entries.
if count > 0 then return redis.call('LRANGE', list, -count, -1) end
return redis.call('LRANGE', list, 0, -count - 1)
