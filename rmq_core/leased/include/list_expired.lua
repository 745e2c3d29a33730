-- Returns the ids of expired leases, the earliest deadline first, at most 16.
local function expired(leases, now)
  if redis.call('ZCOUNT', leases, '-inf', now) == 0 then return {} end
  return redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 16)
end
