-- Tells how much work is ready and how old its oldest message is; moves due messages to ready, claims nothing.
-- KEYS: 1 ready  2 delayed  3 leases  4 waiters
-- ARGV: 1 ms for which to arm the bell, 0 for not at all
-- Reply: {ready with the isolated ones, oldest enqueued ms or '', now ms, next due ms or '', expired lease ids, isolated
--   groups: <messages>, <how many of them a claim may take>, ...}.
-- include: clock
-- include: expired
local now, ready = clock(), redis.call('LLEN', KEYS[1])
local late = expired(KEYS[3], now)
redis.call('ZREMRANGEBYSCORE', KEYS[4], '(0', '(' .. now)
-- Nothing is delayed: answered before the rest below is even defined.
if redis.call('EXISTS', KEYS[2]) == 0 then
  if ARGV[1] ~= '0' then redis.call('ZADD', KEYS[4], now + tonumber(ARGV[1]), '*') end
  local first, due = redis.call('LINDEX', KEYS[1], 0), redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
  return {ready, first and string.match(first, '^%d+ (%d+) ') or '', now, due ~= 'inf' and due or '', late, {}}
end
-- include: mark
-- include: isolated
-- include: oldest
-- include: promote
-- include: next_due
local isolated, groups, counted, score = 0, {}, 0, '(0'
ready, isolated = promote(KEYS[2], KEYS[1], now)
if ARGV[1] ~= '0' then redis.call('ZADD', KEYS[4], now + tonumber(ARGV[1]), '*') end
while counted < isolated and #groups < 200 do
  local first, at = next_isolated(KEYS[2], score)
  local _, _, most = mark_of(first)
  local size = redis.call('ZCOUNT', KEYS[2], at, at)
  groups[#groups + 1], groups[#groups + 2] = size, math.max(1, most)
  counted, score = counted + size, '(' .. at
end
if counted < isolated then groups[#groups + 1], groups[#groups + 2] = isolated - counted, 1 end -- a hundred are enough
return {ready + isolated, oldest(KEYS[1], KEYS[2], isolated), now, next_due(KEYS[2], KEYS[3]) or '', late, groups}
