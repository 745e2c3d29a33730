-- Counts the unsettled messages of many leases of a queue, and tells when the first of these was claimed; changes nothing.
-- KEYS: lists..., the list of the first lease and its settled bitmap, the same of the second, and so on
-- ARGV: none
-- Reply: {messages, ms when the lease was claimed that is held the longest, or ''}.
-- include: head
local held, first = 0, nil
for i = 1, #lists, 2 do
  local elements = redis.call('LLEN', lists[i])
  if elements > 0 then
    held = held + elements - 1 - redis.call('BITCOUNT', lists[i + 1])
    local claimed = head_of(lists[i]).claimed
    first = math.min(first or claimed, claimed) -- no heartbeat and no takeover changes it
  end
end
return {held, first or ''}
