-- As in a plain queue, and tells claims that wait for some groups: all of these read the stream `news`, because a token
-- of `wake` would reach any one of them. An entry names groups of which a claim may get messages now, each before a
-- zero byte; one that names none is for all of them. The member '+' of waiters shows that there are such claims, and is
-- no waiter.
-- KEYS: wanted, zset: group -> ms until which claims wait for it  news
-- include: ready
local function awaited(waiters, wake, timer)
  if redis.call('ZCARD', waiters) == 0 then return nil end
  if timer then redis.call('STRLEN', timer) end
  return {tokens = redis.call('LLEN', wake), paused = redis.call('ZSCORE', waiters, '=')}
end
local function tell(now, everyone)
  local names, awaited_now = {}, {}
  if not everyone then
    for name, r in pairs(known) do
      if r and r.count > 0 and in_line(r) then names[#names + 1] = string.match(name, '^[^\1\2]*') end
    end
    for lo = 1, #names, 4000 do
      local until_ms = redis.call('ZMSCORE', wanted, unpack(names, lo, math.min(#names, lo + 3999)))
      for i = 1, #until_ms do
        if until_ms[i] and tonumber(until_ms[i]) >= now then awaited_now[#awaited_now + 1] = names[lo + i - 1] .. '\0' end
      end
    end
    if #awaited_now == 0 then return end
  end
  redis.call('XADD', news, 'MAXLEN', 64, '*', 'groups', table.concat(awaited_now))
  redis.call('PEXPIRE', news, 60000)
end
local function notify(waiters, wake, channel, now, seen, everyone)
  if redis.call('ZREM', waiters, '*') == 1 then redis.pcall('PUBLISH', channel, '1') end
  local seeking = tonumber(redis.call('ZSCORE', waiters, '+') or 0) >= now
  if redis.call('ZCOUNT', waiters, now, '+inf') - (seeking and 1 or 0) > seen.tokens then
    redis.call('LPUSH', wake, '1')
    redis.call('PEXPIRE', wake, 60000)
  end
  if seeking then tell(now, everyone) end
end
