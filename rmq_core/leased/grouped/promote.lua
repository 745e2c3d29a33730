-- Moves messages whose delay is over to their groups, and isolated ones from before the queue had groups, at most 1,000 at
-- a time. Returns how many messages may be claimed now, and 0, because isolated messages are in their groups.
-- include: ready
local function promote(delayed, _, now, chosen)
  if redis.call('ZCARD', delayed) > 0 then
    local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, 1000)
    if #due > 0 then
      redis.call('ZREM', delayed, unpack(due))
      enqueue(due)
    end
  end
  return claimable_at(now, chosen), 0
end
