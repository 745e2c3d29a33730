-- leave() removes a waiter; arm() registers one, and returns for how many ms it may block and what else it has to know.
-- k and o as in claim.lua, with o.waiter ('' if the caller does not wait) and o.block in ms.
-- include: timer
-- include: next_due
-- include: seek
local function leave(k, o, seen)
  if o.waiter == '' or not seen then return false end -- no waiter is registered, so neither is this one
  redis.call('ZREM', k.waiters, o.waiter)
  local _, holder = timer_due(k.timer)
  if holder == o.waiter then redis.call('DEL', k.timer) end
  return holder == o.waiter
end
local function arm(k, o, now)
  redis.call('LLEN', k.wake) -- refuses a wrong type before anything is written
  redis.call('STRLEN', k.timer)
  redis.call('ZREMRANGEBYSCORE', k.waiters, '(0', '(' .. now)
  local block, more, due, until_token = o.block, '', next_due(k.delayed, k.leases)
  if o.chosen then more = seek(k, o, now)
  else redis.call('ZADD', k.waiters, now + o.block + 2000, o.waiter) end
  local held, holder = timer_due(k.timer)
  if due and (not held or holder == o.waiter or due < held) then
    redis.call('SET', k.timer, due .. ' ' .. o.waiter, 'PX', o.block + 2000)
    if until_token and due - now < block then more = ' token' end
    block = math.max(2, math.min(block, due - now))
  elseif holder == o.waiter then redis.call('DEL', k.timer) end -- else a past due time hides later ones
  return block, more
end
