-- One waiter holds the timer of the queue's next due time ('<due ms> <waiter>'); an earlier due time notifies another.
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
