-- Returns which of many queues hold ready, delayed or leased messages; changes nothing.
-- KEYS: queues..., ready, delayed and leases of the first, the same of the second, and so on
-- ARGV: none
-- Reply: the positions, from 0, of the queues that hold any.
local found = {}
for i = 1, #queues, 3 do
  if redis.call('EXISTS', queues[i], queues[i + 1], queues[i + 2]) > 0 then found[#found + 1] = (i - 1) / 3 end
end
return found
