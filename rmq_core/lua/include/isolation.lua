-- Messages that failed together are isolated: tried apart from the others, in groups of half the size. They wait in
-- `delayed` below zero, where nothing is due: the score -g is the group g, and the group that failed first is nearest to
-- zero. What a message has to do with isolation ends the newest line of its history, so that it travels along:
-- '\31<failures together> <group, 0 for none> <messages of the group a claim may take> <deliveries it is not blamed for>'.
local function mark_in(history)
  local failures, group, most, shared = string.match(history, '\31(%d+) (%d+) (%d+) (%d+)\n$')
  if not failures then return 0, 0, 1, 0 end
  return tonumber(failures), tonumber(group), math.max(1, tonumber(most)), tonumber(shared)
end
local function mark_of(envelope)
  local length, at = string.match(envelope, '^%d+ %d+ (%d+) ()')
  if not length or length == '0' then return 0, 0, 1, 0 end
  return mark_in(string.sub(envelope, at, at + length - 1))
end
-- How often a message failed by itself.
local function blamed(envelope)
  local _, _, _, shared = mark_of(envelope)
  return (tonumber(string.match(envelope, '^(%d+) ')) or 0) - shared
end
local function isolated_in(delayed)
  return redis.call('ZCOUNT', delayed, '-inf', '(0')
end
-- The first message behind the group at `score` and its score; '(0' begins with the group to be tried next.
local function next_isolated(delayed, score)
  local found = redis.call('ZREVRANGEBYSCORE', delayed, score, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return found[1], found[2]
end
