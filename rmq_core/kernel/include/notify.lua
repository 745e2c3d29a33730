-- notify() wakes one waiter if there are more waiters than wake tokens, and publishes to the queue's channel once if a
-- watcher has requested it (member '*'; each watcher requests it again). awaited() reads every key before the script
-- writes. The member '=', at score 0, marks a paused queue and is no waiter. So ZCARD 0 means: no waiter, and not
-- paused, which is the common case. In another layout, notify() gets one more argument: whether all waiters are meant,
-- because the timer is to be set again.
local function awaited(waiters, wake, timer)
  if redis.call('ZCARD', waiters) == 0 then return nil end
  if timer then redis.call('STRLEN', timer) end
  return {tokens = redis.call('LLEN', wake), paused = redis.call('ZSCORE', waiters, '=')}
end
local function notify(waiters, wake, channel, now, seen)
  if redis.call('ZREM', waiters, '*') == 1 then redis.pcall('PUBLISH', channel, '1') end
  if redis.call('ZCOUNT', waiters, now, '+inf') > seen.tokens then
    redis.call('LPUSH', wake, '1')
    redis.call('PEXPIRE', wake, 60000)
  end
end
