-- Element 0 of a lease list: '<token> <state> <claimed ms> <takeovers> <returned> <owner>'.
-- state: f filling, h held, p held and settled in part, q held and worked on one by one, n nacking, l releasing, x and
-- r being reclaimed, as a failure or as a release; returned: messages nacked or released one by one.
local function head_of(lease)
  local head = redis.call('LINDEX', lease, 0)
  if not head then return nil end
  local token, state, claimed, takeovers, returned, owner = string.match(head, '^(%S+) (%a) (%d+) (%d+) (%d+) (.*)$')
  return {token = token, state = state, claimed = tonumber(claimed), takeovers = tonumber(takeovers),
          returned = tonumber(returned), owner = owner}
end
local function head_text(h)
  return h.token .. ' ' .. h.state .. ' ' .. h.claimed .. ' ' .. h.takeovers .. ' ' .. h.returned .. ' ' .. h.owner
end
local function held_by(lease, token)
  local head = head_of(lease)
  if head and head.token == token then return head end
  return nil
end
