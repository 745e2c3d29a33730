-- Sends a worker's heartbeat, so that its jobs do not count as silent. Jobs that another worker
-- has taken over stay with that worker.
-- KEYS: ready
-- ARGV: group  consumer  entries...
-- Reply: the entries that the worker no longer holds.
local lost = {}
for _, entry in ipairs(entries) do
  if #redis.call('XPENDING', ready, group, entry, entry, 1, consumer) == 0 then
    lost[#lost + 1] = entry
  else
    redis.call('XCLAIM', ready, group, consumer, 0, entry, 'JUSTID')
  end
end
return lost
