-- Delayed jobs: `delayed` holds the due time under the job's id, `later` holds the envelope. The alarm wakes a promoter
-- when a job is due sooner than all before. A second delayed job of the same id gets a name of its own.
-- include: alarm
local function put_later(delayed, later, alarm, due, id, envelope)
  local first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
  local n, name = 1, id
  while redis.call('HSETNX', later, name, envelope) == 0 do
    n = n + 1
    name = id .. ' ' .. n
  end
  redis.call('ZADD', delayed, due, name)
  if not first or due < tonumber(first) then alarmed(alarm) end
end
local function promote_jobs(delayed, later, ready, now)
  local names, ids = redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, 1000), {}
  if #names == 0 then return ids end
  local envelopes = redis.call('HMGET', later, unpack(names))
  for i = 1, #names do
    if envelopes[i] then redis.call('XADD', ready, '*', 'e', envelopes[i]) end
    ids[i] = string.match(names[i], '^%S+')
  end
  redis.call('HDEL', later, unpack(names))
  redis.call('ZREM', delayed, unpack(names))
  return ids
end
