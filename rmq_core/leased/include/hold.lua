-- The deadline and the token of a lease that starts, or that continues under a new token; hold_one() starts a lease of
-- one message. k: keys by name; o: id, nonce, lease_ms ('inf': never reclaimed), owner.
local function deadline_of(o, now)
  if o.lease_ms == 'inf' then return '+inf' end
  return string.format('%.0f', now + tonumber(o.lease_ms))
end
local function next_token(k, o)
  local fence = redis.pcall('INCR', k.fence)
  if type(fence) == 'table' then -- the server is full: it allows PERSIST, and then the later writes of this script
    redis.call('PERSIST', k.leases)
    fence = redis.call('INCR', k.fence)
  end
  return fence .. '.' .. o.nonce
end
local function hold_one(k, o, now)
  local token, deadline = next_token(k, o), deadline_of(o, now)
  local message = redis.call('LPOP', k.ready)
  redis.call('RPUSH', k.lease, token .. ' h ' .. now .. ' 0 0 ' .. o.owner, message)
  redis.call('ZADD', k.leases, deadline, o.id)
  return 'claimed ' .. token .. ' ' .. deadline .. ' 1 1 0 0', {{message}}
end
