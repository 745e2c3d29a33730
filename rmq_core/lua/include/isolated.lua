-- Isolated messages wait in `delayed` below zero, where nothing is due: the score -g is the group g, and the group that
-- failed first is nearest to zero.
local function isolated_in(delayed)
  return redis.call('ZCOUNT', delayed, '-inf', '(0')
end
-- The first message, in the order of claiming, of the group behind `score`, and the score of that group; '(0' begins with
-- the group to be tried next.
local function next_isolated(delayed, score)
  local at = redis.call('ZREVRANGEBYSCORE', delayed, score, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if not at then return nil end
  return redis.call('ZRANGEBYSCORE', delayed, at, at, 'LIMIT', 0, 1)[1], at
end
