-- Enters a run in the record of a consumer, or keeps it there. Harmless to repeat.
-- KEYS: 1 consumer
-- ARGV: 1 run  2 its stream  3 ms for which it counts as alive without another call  4 ms for which the record is remembered
--       5 number of the stream's batch up to which all is finished  6 '1' to enter, '0' only to stay
-- Reply: 'entered <finished> <stream before, or '-'> <its finished>', 'taken <ms until it no longer counts as alive>'.
-- include: clock
local now = clock()
local run, stream, alive, finished, before, before_finished =
  unpack(redis.call('HMGET', KEYS[1], 'run', 'stream', 'until', 'finished', 'before', 'before_finished'))
local left = (tonumber(alive) or 0) - now
if run ~= ARGV[1] then
  if ARGV[6] == '0' then return 'taken ' .. math.max(0, left) end
  if run and stream ~= ARGV[2] and left > 0 then return 'taken ' .. left end
end
redis.call('PERSIST', KEYS[1]) -- a full server lets a script write that begins with a write it does not deny
if stream ~= ARGV[2] then
  -- Back to the stream before the last: what is known of it holds.
  before, before_finished, finished = stream, finished, before == ARGV[2] and before_finished or nil
end
finished = math.max(tonumber(finished) or 0, tonumber(ARGV[5]))
before, before_finished = before or '-', before_finished or '0'
redis.call('HSET', KEYS[1], 'run', ARGV[1], 'stream', ARGV[2], 'until', now + tonumber(ARGV[3]), 'finished', finished,
  'before', before, 'before_finished', before_finished)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 'entered ' .. finished .. ' ' .. before .. ' ' .. before_finished
