-- Lists repeatable jobs, the next to fire first; changes nothing.
-- KEYS: 1 repeats  2 repeat  3 fired
-- ARGV: 1 how many at most
-- Reply: {key, next ms, rule, how often it fired} of each.
local found, listed = redis.call('ZRANGE', KEYS[1], 0, tonumber(ARGV[1]) - 1, 'WITHSCORES'), {}
for i = 1, #found, 2 do
  listed[#listed + 1] = {found[i], found[i + 1], redis.call('HGET', KEYS[2], found[i]),
                         redis.call('HGET', KEYS[3], found[i]) or '0'}
end
return listed
