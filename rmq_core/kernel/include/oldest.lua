-- Returns when the message that is claimed next was enqueued, '' without messages. If both ready and isolated messages
-- wait, it is the earlier of the two times.
-- include: envelope
-- include: next_isolated
local function ready_in(ready) return redis.call('LLEN', ready) end
local function oldest(ready, delayed, isolated)
  local first, apart = redis.call('LINDEX', ready, 0), isolated > 0 and next_isolated(delayed, '(0')
  local a = first and enqueued(first)
  local b = apart and enqueued(apart)
  if a and b then return tonumber(a) <= tonumber(b) and a or b end
  return a or b or ''
end
