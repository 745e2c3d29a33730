-- What it means for the messages of a lease that they are released: they return to where they came from, and only the
-- one message of a lease keeps the deliveries of takeovers.
-- include: mark
local function untouched(head, lease)
  local first = redis.call('LINDEX', lease, 1)
  local _, group = mark_of(first or '')
  local size, begun = redis.call('LLEN', lease) - 1, head.state == 'l' or head.state == 'r'
  local add = size == 1 and not begun and head.takeovers or 0
  return {size = size, add = add, group = group, settled = head.state ~= 'h'}
end
