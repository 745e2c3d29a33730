-- Parts of a lease that is granted: its deadline and its token. k: keys by name; o: id, nonce, lease_ms ('inf':
-- never reclaimed), owner, mark ('.g' where the lease may hold groups, see check_layout).
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
  return fence .. (o.mark or '.') .. o.nonce
end
