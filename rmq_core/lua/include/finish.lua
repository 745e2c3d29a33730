-- Removes a lease whose messages are all done; the done record says so when each of them was acked.
local function finish(k, head, now, done_ttl, completed_cap)
  local count = redis.call('LLEN', k.lease) - 1
  local settled = head.state == 'p' and redis.call('BITCOUNT', k.settled) or 0
  if completed_cap > 0 then redis.call('LLEN', k.completed) end -- refuses a wrong type before anything is written
  redis.call('ZREM', k.leases, k.id)
  if completed_cap > 0 then
    local newest = redis.call('LRANGE', k.lease, math.max(1, count - math.min(completed_cap, 4000) + 1), -1)
    if #newest > 0 then redis.call('LPUSH', k.completed, unpack(newest)) end
    redis.call('LTRIM', k.completed, 0, completed_cap - 1)
  end
  redis.call('UNLINK', k.lease, k.settled)
  if done_ttl > 0 and head.returned == 0 then
    redis.call('SET', k.done, count .. ' ' .. now .. ' ' .. head.owner, 'PX', done_ttl)
  end
  return count - settled
end
