-- Counts the unsettled messages of many leases of a queue; changes nothing.
-- KEYS: lists..., the list of the first lease and its settled bitmap, the same of the second, and so on
-- ARGV: none
-- Reply: the number of messages.
local held = 0
for i = 1, #lists, 2 do
  local elements = redis.call('LLEN', lists[i])
  if elements > 0 then held = held + elements - 1 - redis.call('BITCOUNT', lists[i + 1]) end
end
return held
