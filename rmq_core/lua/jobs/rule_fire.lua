-- Adds the jobs of a rule that is due and moves its time; only whoever knows the present time of the rule does, once.
-- KEYS: 1 slot  2 ready  3 repeats  4 repeat  5 fired
-- ARGV: 1 seq  2 slot ttl ms  3 key  4 rule  5 its present time, ms  6 its next time, ms, or '' when it is over
--       7... bodies of the jobs
-- Reply: 'fired <count>', 'other' when somebody else did, or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
local at = redis.call('ZSCORE', KEYS[3], ARGV[3])
if not at or tonumber(at) ~= tonumber(ARGV[5]) or redis.call('HGET', KEYS[4], ARGV[3]) ~= ARGV[4] then
  return refuse('other')
end
local stamp = '0 ' .. clock() .. ' 0 '
for i = 7, #ARGV do redis.call('XADD', KEYS[2], '*', 'e', stamp .. ARGV[i]) end
if ARGV[6] == '' then
  redis.call('ZREM', KEYS[3], ARGV[3])
  redis.call('HDEL', KEYS[4], ARGV[3])
  redis.call('HDEL', KEYS[5], ARGV[3])
else
  redis.call('ZADD', KEYS[3], ARGV[6], ARGV[3])
  redis.call('HINCRBY', KEYS[5], ARGV[3], #ARGV - 6)
end
return remember('fired ' .. (#ARGV - 6))
