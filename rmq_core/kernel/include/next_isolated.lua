-- Isolated messages wait in `delayed` with scores below zero, which are never due: the score -g stands for the group g.
-- The group that failed first has the score nearest to zero.
local function isolated_in(delayed)
  return redis.call('ZCOUNT', delayed, '-inf', '(0')
end
-- Returns the first message, in the order of claiming, of the next group from `score` downwards, and the score of that
-- group. '(0' starts with the group that is claimed next.
local function next_isolated(delayed, score)
  local at = redis.call('ZREVRANGEBYSCORE', delayed, score, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if not at then return nil end
  return redis.call('ZRANGEBYSCORE', delayed, at, at, 'LIMIT', 0, 1)[1], at
end
