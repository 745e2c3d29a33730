-- Starts a lease of one or more ready messages; k and o as in hold, and o.max: how many messages at most.
-- include: claimed
-- include: hold
local function open_ready(k, o, now, _)
  o.mark = '.g'
  local token, deadline = next_token(k, o), deadline_of(o, now)
  redis.call('RPUSH', k.lease, token .. ' h ' .. now .. ' 0 0 ' .. o.owner)
  local taken, kept, failures, most, all = take_groups(k.lease, math.min(o.max, 4000), o.chosen)
  local left = o.chosen and claimable_in(o.chosen) or claimable_now()
  local limit_now = all and taken or math.min(o.max, taken + left)
  if taken < limit_now then redis.call('LSET', k.lease, 0, token .. ' f ' .. now .. ' 0 0 ' .. o.owner) end
  redis.call('ZADD', k.leases, deadline, o.id)
  return claimed(token, deadline, taken, limit_now, failures, most), o.max < 100 and kept or {}
end
