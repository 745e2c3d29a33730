-- Returns the argument `how` of give_back for a lease that is released: its messages return to where they came from.
-- Only in a lease of one message do takeovers count as deliveries.
-- include: mark
local function untouched(head, lease)
  local first = redis.call('LINDEX', lease, 1)
  local _, group = mark_of(first or '')
  local size, begun = redis.call('LLEN', lease) - 1, head.state == 'l' or head.state == 'r'
  local add = size == 1 and not begun and head.takeovers or 0
  return {size = size, add = add, group = group, settled = head.state ~= 'h'}
end
