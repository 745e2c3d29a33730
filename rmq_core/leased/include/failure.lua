-- Returns the argument `how` of give_back for a lease that failed. While the lease is given back in chunks, its head
-- stores how many messages were unsettled at first.
local function failure_of(head, lease, settled)
  local count, begun = redis.call('LLEN', lease) - 1, head.state == 'n' or head.state == 'x'
  local how = {size = count, add = head.takeovers + 1, shared = 0, settled = head.state ~= 'h'}
  local open = math.max(1, count - (how.settled and redis.call('BITCOUNT', settled) or 0))
  if not begun or open > head.returned then head.returned = open end -- an earlier version stored another value there
  how.together = head.returned
  if how.together > 1 then how.shared = how.add
  elseif begun or count > 1 then how.shared = head.takeovers end
  how.group = 2 * string.match(head.token, '^%d+') + 1
  return how
end
