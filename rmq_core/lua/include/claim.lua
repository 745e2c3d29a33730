-- Starts a lease, or takes an existing one over. k: keys by name; o: id, nonce, lease_ms ('inf': never reclaimed), max,
-- keep (return the envelopes), owner, max_deliveries, waiter ('' when the caller does not wait), block ms.
local function deadline_of(o, now)
  if o.lease_ms == 'inf' then return '+inf' end
  return now + tonumber(o.lease_ms)
end
local function leave(k, o, seen)
  if o.waiter == '' then return false end
  redis.call('ZREM', k.waiters, o.waiter)
  local _, holder = timer_due(k.timer)
  if holder == o.waiter then redis.call('DEL', k.timer) end
  return seen and holder == o.waiter
end
local function arm(k, o, now)
  redis.call('LLEN', k.wake) -- refuses a wrong type before anything is written
  redis.call('STRLEN', k.timer)
  redis.call('ZREMRANGEBYSCORE', k.waiters, '(0', '(' .. now)
  redis.call('ZADD', k.waiters, now + o.block + 2000, o.waiter)
  local due, block = next_due(k.delayed, k.leases), o.block
  if due then
    local held, holder = timer_due(k.timer)
    if not held or holder == o.waiter or due < held then
      redis.call('SET', k.timer, due .. ' ' .. o.waiter, 'PX', o.block + 2000)
      block = math.max(2, math.min(block, due - now))
    end
  end
  return block
end
local function next_token(k, o)
  local fence = redis.pcall('INCR', k.fence)
  if type(fence) == 'table' then -- the server is full: a write that it does not refuse opens the door for this one
    redis.call('PERSIST', k.leases)
    fence = redis.call('INCR', k.fence)
  end
  return fence .. '.' .. o.nonce
end
local function open_lease(k, o, now, oldest)
  local limit = o.max
  local before = limit > 1 and deliveries(oldest) or 0
  if before > 0 then limit = math.max(1, math.floor(limit / 10 ^ before)) end
  if before > 0 and before + 1 >= o.max_deliveries and o.max_deliveries > 0 then limit = 1 end
  local token = next_token(k, o)
  local head = {token = token, state = 'h', claimed = now, takeovers = 0, returned = 0, owner = o.owner}
  local taken, kept = 1, nil
  if limit == 1 then
    kept = {redis.call('RPOP', k.ready)}
    redis.call('RPUSH', k.lease, head_text(head), kept[1])
  else
    redis.call('RPUSH', k.lease, head_text(head))
    taken, kept = take(k.ready, k.lease, math.min(limit, 4000), o.keep)
    if taken < limit and redis.call('LLEN', k.ready) > 0 then
      head.state = 'f'
      redis.call('LSET', k.lease, 0, head_text(head))
    else
      limit = taken
    end
  end
  local deadline = deadline_of(o, now)
  redis.call('ZADD', k.leases, deadline, o.id)
  return table.concat({'claimed', token, deadline, taken, limit, 0, 0}, ' '), kept
end
local function take_over(k, o, now, counted)
  local head = head_of(k.lease)
  local first = redis.call('LINDEX', k.lease, 1)
  if counted and string.sub(head.token, -#o.nonce) == o.nonce then counted = false end
  local count, settled = redis.call('LLEN', k.lease) - 1, redis.call('BITCOUNT', k.settled)
  if counted and used_up(first, head.takeovers, count - settled, o.max_deliveries) then return 'exhausted' end
  head.token = next_token(k, o)
  head.state = settled > 0 and 'p' or 'h'
  head.owner = o.owner or head.owner
  if counted then head.takeovers = head.takeovers + 1 end
  redis.call('LSET', k.lease, 0, head_text(head))
  local deadline = deadline_of(o, now)
  redis.call('ZADD', k.leases, deadline, o.id)
  return table.concat({'taken', head.token, deadline, count, count, head.takeovers, settled, head.owner}, ' ')
end
local function announce(k, now, seen, deadline, timer_free)
  if not seen then return end
  if timer_free or redis.call('LLEN', k.ready) > 0 or (deadline and sooner(k.timer, deadline)) then
    ring(k.waiters, k.wake, k.bell, now, seen)
  end
end
