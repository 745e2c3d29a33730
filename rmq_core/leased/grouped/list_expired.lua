-- Returns the ids of expired leases, the earliest deadline first, at most 16. overdue.lua adds '~!' to them.
local late_ids = {}
local function expired(leases, now)
  if redis.call('ZCOUNT', leases, '-inf', now) > 0 then
    late_ids = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 16)
  end
  return late_ids
end
