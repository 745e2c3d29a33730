-- Removes a lease whose messages are all done. Unless its ttl is 0, the done record is kept; it stores how many of them
-- were acked.
-- include: ended
local function finish(k, head, now, done_ttl_ms, completed_cap)
  local count = redis.call('LLEN', k.lease) - 1
  local settled = head.state ~= 'h' and redis.call('BITCOUNT', k.settled) or 0
  if completed_cap > 0 then redis.call('LLEN', k.completed) end -- refuses a wrong type before anything is written
  if done_ttl_ms > 0 then redis.call('STRLEN', k.done) end
  redis.call('ZREM', k.leases, k.id)
  if completed_cap > 0 then
    -- Messages settled before must not displace the newest of those acked now.
    local most = settled > 0 and 4000 or math.min(completed_cap, 4000)
    local first, acked = math.max(0, count - most), {}
    local newest = redis.call('LRANGE', k.lease, first + 1, -1)
    for i = 1, #newest do
      if settled == 0 or redis.call('GETBIT', k.settled, first + i - 1) == 0 then acked[#acked + 1] = newest[i] end
    end
    if #acked > 0 then redis.call('LPUSH', k.completed, unpack(acked)) end
    redis.call('LTRIM', k.completed, 0, completed_cap - 1)
  end
  redis.call('UNLINK', k.lease, k.settled)
  if ended then ended() end
  if done_ttl_ms > 0 then
    local returned = head.state ~= 'n' and math.min(head.returned, settled) or 0 -- n: see failure.lua
    redis.call('SET', k.done, count - returned .. ' ' .. now .. ' ' .. head.owner, 'PX', done_ttl_ms)
  end
  return count - settled
end
