-- Starts a lease of one or many of the messages that are ready; k and o as in hold, and o: max, max messages.
local function granted(token, deadline, taken, limit, failures, most)
  return table.concat({'claimed', token, deadline, taken, limit, failures, most}, ' ')
end
local function new_lease(k, o, now)
  local token, deadline = next_token(k, o), deadline_of(o, now)
  return token, deadline, {token = token, state = 'h', claimed = now, takeovers = 0, returned = 0, owner = o.owner}
end
-- A piece of the isolated group that failed first, no larger than one reply can bring.
local function open_isolated(k, o, now)
  local first, score = next_isolated(k.delayed, '(0')
  local failures, _, most = mark_of(first)
  local limit, taken, bytes, kept = math.min(o.max, most, 4000), 0, 0, {}
  local token, deadline, head = new_lease(k, o, now)
  redis.call('RPUSH', k.lease, head_text(head))
  while taken < limit and bytes < 8388608 do
    local fit = taken == 0 and 8 or math.max(1, math.floor((8388608 - bytes) * taken / bytes))
    local got = redis.call('ZRANGEBYSCORE', k.delayed, score, score, 'LIMIT', 0, math.min(limit - taken, fit, 512))
    if #got == 0 then break end
    redis.call('ZREM', k.delayed, unpack(got))
    redis.call('RPUSH', k.lease, unpack(got))
    for i = 1, #got do bytes = bytes + #got[i] end
    kept[#kept + 1], taken = got, taken + #got
  end
  redis.call('ZADD', k.leases, deadline, o.id)
  return granted(token, deadline, taken, taken, failures, most), kept
end
local function open_lease(k, o, now, ready, isolated)
  -- Isolated and other messages take turns: claims add one to the fence, whatever else moves it two.
  if isolated > 0 and (ready == 0 or tonumber(redis.call('GET', k.fence) or 0) % 2 == 0) then
    return open_isolated(k, o, now)
  end
  local limit = o.max
  if limit == 1 then return hold_one(k, o, now) end
  local token, deadline, head = new_lease(k, o, now)
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
  return granted(token, deadline, taken, limit, 0, 0), kept
end
local function announce(k, now, seen, deadline, timer_free)
  if not seen then return end
  local left = redis.call('LLEN', k.ready) > 0 or isolated_in(k.delayed) > 0
  if timer_free or left or (deadline and sooner(k.timer, deadline)) then
    ring(k.waiters, k.wake, k.bell, now, seen)
  end
end
