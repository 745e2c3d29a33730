-- Returns how much work is ready and how old its oldest message is; moves due messages to ready, claims nothing.
-- KEYS: ready  delayed  leases  waiters  fence
-- ARGV: notify_ms, for how long to request a notification, as member '*' of `waiters`; 0 to request none
--       watcher, '*', or '@' for consumers that wait for messages of any shard
--       from_groups?, groups whose messages count, joined by zero bytes
-- Reply: {ready with the isolated ones, oldest enqueued ms or '', now ms, next due ms or '', expired lease ids,
--   isolated groups: {<messages>, <how many of them a claim may take>, ...}, 1 if paused, else 0, fence or ''}; or
--   {'ungrouped'}.
-- include: clock
-- include: list_expired
-- include: ready
local now = clock()
local chosen = from_groups and lines_of(from_groups)
if from_groups and not chosen then return {'ungrouped'} end
local waiting = claimable_at(now)
local late = expired(leases, now)
local paused, fenced = redis.call('ZSCORE', waiters, '=') and 1 or 0, redis.call('GET', fence) or ''
redis.call('ZREMRANGEBYSCORE', waiters, '(0', '(' .. now)
-- Fast path: nothing is delayed. It returns before the includes below are defined.
if not in_groups and redis.call('EXISTS', delayed) == 0 then
  if notify_ms ~= '0' then redis.call('ZADD', waiters, now + tonumber(notify_ms), watcher) end
  local first, due = redis.call('LINDEX', ready, 0), redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2]
  return {waiting, first and string.match(first, '^%d+ (%d+) ') or '', now, due ~= 'inf' and due or '', late, {}, paused, fenced}
end
-- include: isolated
-- include: oldest
-- include: promote
-- include: next_due
local isolated = 0
waiting, isolated = promote(delayed, ready, now, chosen)
if in_groups and not chosen then waiting = math.min(waiting, ready_in(ready)) end
if notify_ms ~= '0' then redis.call('ZADD', waiters, now + tonumber(notify_ms), watcher) end
return {waiting + isolated, oldest(ready, delayed, isolated, chosen), now, next_due(delayed, leases) or '', late,
        isolated_groups(delayed, isolated, chosen), paused, fenced}
