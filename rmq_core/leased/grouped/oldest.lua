-- Returns when the message at the front of the line was enqueued, '' without messages. The oldest of all is not known:
-- it may be in any group.
-- include: entries
local function ready_in(_) return line_of().claimable end
local function oldest(ready, _, _)
  local first = entries(ready, 0, 0)[1]
  return first and enqueued(first) or ''
end
