-- A lease's head: '<token> <takeovers> <count> <returned> <claimed ms> <owner>'; returned: jobs nacked or released.
local function lease_head(heads, id)
  local text = redis.call('HGET', heads, id)
  if not text then return nil end
  local token, takeovers, count, returned, claimed, owner = string.match(text, '^(%S+) (%d+) (%d+) (%d+) (%d+) (.*)$')
  return {token = token, takeovers = tonumber(takeovers), count = tonumber(count), returned = tonumber(returned),
          claimed = claimed, owner = owner}
end
local function keep_head(heads, id, h)
  redis.call('HSET', heads, id, table.concat({h.token, h.takeovers, h.count, h.returned, h.claimed, h.owner}, ' '))
end
local function lease_of(heads, id, token)
  local head = lease_head(heads, id)
  if head and head.token == token then return head end
  return nil
end
