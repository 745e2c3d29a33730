-- Adds the jobs of a rule that is due and sets its next due time. This happens once, because the caller must pass the
-- due time that is stored.
-- KEYS: slot  ready  repeats  rules  fired
-- ARGV: seq  slot_ttl_ms  key  rule  present_ms:number, its stored due time
--       next_ms, its next due time, or '' to delete it
--       bodies..., of the jobs
-- Reply: 'fired <count>', 'other' when another client fired, changed or deleted it, or 'superseded'.
-- include: clock
-- include: replay
-- include: stamp
local earlier = replay()
if earlier then return earlier end
local at = redis.call('ZSCORE', repeats, key)
if not at or tonumber(at) ~= present_ms or redis.call('HGET', rules, key) ~= rule then
  return refuse('other')
end
local front = stamp(clock())
for _, body in ipairs(bodies) do redis.call('XADD', ready, '*', 'e', front .. body) end
if next_ms == '' then
  redis.call('ZREM', repeats, key)
  redis.call('HDEL', rules, key)
  redis.call('HDEL', fired, key)
else
  redis.call('ZADD', repeats, next_ms, key)
  redis.call('HINCRBY', fired, key, #bodies)
end
return remember('fired ' .. #bodies)
