-- Returns when the message that is claimed next was enqueued; if both a ready and an isolated one wait, the earlier of
-- the two times; '' without messages.
-- include: envelope
-- include: isolated
local function oldest(ready, delayed, isolated)
  local first, apart = redis.call('LINDEX', ready, 0), isolated > 0 and next_isolated(delayed, '(0')
  local a = first and enqueued(first)
  local b = apart and enqueued(apart)
  if a and b then return tonumber(a) <= tonumber(b) and a or b end
  return a or b or ''
end
