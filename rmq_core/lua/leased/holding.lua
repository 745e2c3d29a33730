-- Tells which of many queues have anything that is ready, delayed or leased; changes nothing.
-- KEYS: 1... ready, delayed and leases of the first queue, the same of the second, ...
-- ARGV: none
-- Reply: the places, from 0, of the queues that do.
local found = {}
for i = 1, #KEYS, 3 do
  if redis.call('EXISTS', KEYS[i], KEYS[i + 1], KEYS[i + 2]) > 0 then found[#found + 1] = (i - 1) / 3 end
end
return found
