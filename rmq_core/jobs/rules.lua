-- Lists repeatable jobs, the next to fire first; changes nothing.
-- KEYS: repeats  rules  fired
-- ARGV: most:number, how many at most
-- Reply: {key, next ms, rule, how often it fired} of each.
local found, listed = redis.call('ZRANGE', repeats, 0, most - 1, 'WITHSCORES'), {}
for i = 1, #found, 2 do
  listed[#listed + 1] = {found[i], found[i + 1], redis.call('HGET', rules, found[i]),
                         redis.call('HGET', fired, found[i]) or '0'}
end
return listed
