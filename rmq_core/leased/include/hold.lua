-- Starts a lease of one ready message; k and o as in grant.
-- include: grant
local function hold_one(k, o, now)
  local token, deadline = next_token(k, o), deadline_of(o, now)
  local message = redis.call('LPOP', k.ready)
  redis.call('RPUSH', k.lease, token .. ' h ' .. now .. ' 0 0 ' .. o.owner, message)
  redis.call('ZADD', k.leases, deadline, o.id)
  return 'claimed ' .. token .. ' ' .. deadline .. ' 1 1 0 0', {{message}}
end
