-- Starts a lease of one ready message; k and o as in grant.
-- include: claimed
-- include: grant
-- include: take
local function hold_one(k, o, now)
  o.mark = '.g'
  local token, deadline = next_token(k, o), deadline_of(o, now)
  redis.call('RPUSH', k.lease, token .. ' h ' .. now .. ' 0 0 ' .. o.owner)
  local _, kept, failures, most = take_groups(k.lease, 1, o.chosen)
  redis.call('ZADD', k.leases, deadline, o.id)
  return claimed(token, deadline, 1, 1, failures, most), kept
end
