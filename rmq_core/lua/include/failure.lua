-- What it means for the messages of a lease that it failed: see `how` in give_back. While the lease goes back in chunks,
-- its head keeps how many messages were open at first.
local function failure_of(head, lease, settled)
  local count, begun = redis.call('LLEN', lease) - 1, head.state == 'n' or head.state == 'x'
  if not begun then head.returned = math.max(1, count - redis.call('BITCOUNT', settled)) end
  local how = {add = head.takeovers + 1, together = head.returned, shared = 0}
  if how.together > 1 then how.shared = how.add
  elseif begun or count > 1 then how.shared = head.takeovers end
  how.group = 2 * string.match(head.token, '^%d+') + 1
  return how
end
