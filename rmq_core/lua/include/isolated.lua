-- Isolated messages wait in `delayed` below zero, where nothing is due: the score -g is the group g, and the group that
-- failed first is nearest to zero.
local function isolated_in(delayed)
  return redis.call('ZCOUNT', delayed, '-inf', '(0')
end
-- The first message behind the group at `score` and its score; '(0' begins with the group to be tried next.
local function next_isolated(delayed, score)
  local found = redis.call('ZREVRANGEBYSCORE', delayed, score, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return found[1], found[2]
end
