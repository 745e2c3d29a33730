-- Starts a lease of ready messages, or of a part of the isolated group that failed first; k and o as in open_ready. The
-- part is never larger than one reply can hold.
-- include: claimed
-- include: ready
-- include: notify
-- include: timer
-- include: mark
-- include: next_isolated
-- include: open_ready
-- include: turns
local function open_isolated(k, o, now)
  local first, score = next_isolated(k.delayed, '(0')
  local failures, _, most = mark_of(first)
  local limit, taken, bytes, kept = math.min(o.max, math.max(1, most), 4000), 0, 0, {}
  local token, deadline = next_token(k, o), deadline_of(o, now)
  redis.call('RPUSH', k.lease, token .. ' h ' .. now .. ' 0 0 ' .. o.owner)
  while taken < limit and bytes < 8388608 do
    local fit = taken == 0 and 8 or math.max(1, math.floor((8388608 - bytes) * taken / bytes))
    local got = redis.call('ZRANGEBYSCORE', k.delayed, score, score, 'LIMIT', 0, math.min(limit - taken, fit, 512))
    if #got == 0 then break end
    redis.call('ZREM', k.delayed, unpack(got))
    redis.call('RPUSH', k.lease, unpack(got))
    for i = 1, #got do bytes = bytes + #got[i] end
    if o.max < 100 then kept[#kept + 1] = got end
    taken = taken + #got
  end
  redis.call('ZADD', k.leases, deadline, o.id)
  return claimed(token, deadline, taken, taken, failures, most), kept
end
local function open_lease(k, o, now, ready, isolated)
  if isolated > 0 and (ready == 0 or is_turn_of_isolated(tonumber(redis.call('GET', k.fence) or 0))) then
    return open_isolated(k, o, now)
  end
  return open_ready(k, o, now, ready)
end
local function announce(k, now, seen, deadline, timer_free)
  if not seen then return end
  local left = claimable_at(now) > 0 or isolated_in(k.delayed) > 0 or in_groups and is_token_sooner()
  local for_timer = timer_free or (deadline and sooner(k.timer, deadline))
  if left or for_timer then notify(k.waiters, k.wake, k.channel, now, seen, for_timer) end
end
