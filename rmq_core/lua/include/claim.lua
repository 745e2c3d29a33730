-- Starts a lease of one or many of the messages that are ready; k and o as in hold, and o: max, max_deliveries.
local function open_lease(k, o, now, ready)
  local limit = o.max
  local before = limit > 1 and deliveries(redis.call('LINDEX', k.ready, 0)) or 0
  if before > 0 then limit = math.max(1, math.floor(limit / 10 ^ before)) end
  if before > 0 and before + 1 >= o.max_deliveries and o.max_deliveries > 0 then limit = 1 end
  if limit == 1 then return hold_one(k, o, now) end
  local token, deadline = next_token(k, o), deadline_of(o, now)
  local head = {token = token, state = 'h', claimed = now, takeovers = 0, returned = 0, owner = o.owner}
  local taken, kept = ready, {}
  if limit > 4000 and limit >= ready then -- all there are, none of them to be told: the list becomes the lease
    redis.call('RENAME', k.ready, k.lease)
    redis.call('LPUSH', k.lease, head_text(head))
  else
    redis.call('RPUSH', k.lease, head_text(head))
    taken, kept = take(k.ready, k.lease, math.min(limit, 4000), limit <= 4000)
  end
  if taken < math.min(limit, ready) then
    head.state = 'f'
    redis.call('LSET', k.lease, 0, head_text(head))
  else
    limit = taken
  end
  redis.call('ZADD', k.leases, deadline, o.id)
  return 'claimed ' .. token .. ' ' .. deadline .. ' ' .. taken .. ' ' .. limit .. ' 0 0', kept
end
local function announce(k, now, seen, deadline, timer_free)
  if not seen then return end
  if timer_free or redis.call('LLEN', k.ready) > 0 or (deadline and sooner(k.timer, deadline)) then
    ring(k.waiters, k.wake, k.bell, now, seen)
  end
end
