-- Shows entries at one end of a list; changes nothing.
-- KEYS: 1 list
-- ARGV: 1 how many: above 0 from the right end, below 0 from the left end
-- Reply: the entries.
local n = tonumber(ARGV[1])
if n > 0 then return redis.call('LRANGE', KEYS[1], -n, -1) end
return redis.call('LRANGE', KEYS[1], 0, -n - 1)
