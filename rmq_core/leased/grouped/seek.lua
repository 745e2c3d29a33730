-- Registers a claim that waits for messages of some groups; returns the time and the last entry of `news`.
-- KEYS: wanted  news
-- include: ready
local function seek(k, o, now)
  local until_ms, last = now + o.block + 2000, redis.call('XREVRANGE', news, '+', '-', 'COUNT', 1)[1]
  local members = {}
  for i = 1, #o.chosen do
    if not string.find(o.chosen[i], '[\1\2]') then
      members[#members + 1], members[#members + 2] = until_ms, o.chosen[i]
    end
  end
  redis.call('ZADD', k.waiters, 'GT', until_ms, '+')
  redis.call('ZREMRANGEBYSCORE', wanted, '-inf', '(' .. now)
  redis.call('ZADD', wanted, 'GT', unpack(members))
  redis.call('PEXPIRE', wanted, 60000)
  return ' ' .. now .. ' ' .. (last and last[1] or '0-0')
end
