-- Starts a lease of one or more ready messages, of which there are `ready`; k and o as in hold, and o.max: how many
-- messages at most.
-- include: hold
-- include: take
local function claimed(token, deadline, taken, limit, failures, most)
  return 'claimed ' .. token .. ' ' .. deadline .. ' ' .. taken .. ' ' .. limit .. ' ' .. failures .. ' ' .. most
end
local function open_ready(k, o, now, ready)
  if o.max == 1 then return hold_one(k, o, now) end
  local token, deadline, limit = next_token(k, o), deadline_of(o, now), o.max
  local rest = ' ' .. now .. ' 0 0 ' .. o.owner
  local taken, kept = ready, {}
  if limit > 4000 and limit >= ready then -- all messages, and none to be returned: the list becomes the lease
    redis.call('RENAME', k.ready, k.lease)
    redis.call('LPUSH', k.lease, token .. ' h' .. rest)
  else
    redis.call('RPUSH', k.lease, token .. ' h' .. rest)
    taken, kept = take(k.ready, k.lease, math.min(limit, 4000), limit <= 4000)
  end
  if taken < math.min(limit, ready) then redis.call('LSET', k.lease, 0, token .. ' f' .. rest)
  else limit = taken end
  redis.call('ZADD', k.leases, deadline, o.id)
  return claimed(token, deadline, taken, limit, 0, 0), kept
end
