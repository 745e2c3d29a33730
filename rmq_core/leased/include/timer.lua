-- One waiter holds the timer of the queue's next due time ('<due ms> <waiter>'). When a message or lease with
-- an earlier due time is added, another waiter is notified.
local function timer_due(timer)
  local held = redis.call('GET', timer)
  if not held then return nil, nil end
  local due, waiter = string.match(held, '^(%d+) (.*)$')
  return tonumber(due), waiter
end
local function sooner(timer, due)
  local held = timer_due(timer)
  return not held or due < held
end
