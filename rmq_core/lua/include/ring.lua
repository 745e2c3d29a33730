-- Wakes one waiter when there are more of them than wake tokens, and whoever watches the queue through the bell
-- (member '*', armed again by each watcher). awaited() reads every key before a script writes. The member '=', at score
-- 0 and thus no waiter, says that the queue is paused: so one ZCARD tells the common case, nobody and not paused.
local function awaited(waiters, wake, timer)
  if redis.call('ZCARD', waiters) == 0 then return nil end
  if timer then redis.call('STRLEN', timer) end
  return {tokens = redis.call('LLEN', wake), paused = redis.call('ZSCORE', waiters, '=')}
end
local function ring(waiters, wake, bell, now, seen)
  if redis.call('ZREM', waiters, '*') == 1 then redis.pcall('PUBLISH', bell, '1') end
  if redis.call('ZCOUNT', waiters, now, '+inf') > seen.tokens then
    redis.call('LPUSH', wake, '1')
    redis.call('PEXPIRE', wake, 60000)
  end
end
