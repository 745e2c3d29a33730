-- Registers a run in the record of a consumer, or keeps it registered. Harmless to repeat.
-- KEYS: consumer
-- ARGV: run  stream, its stream  alive_ms:number, for which it counts as alive without another call
--       remembered_ms, how long to keep the record
--       finished:number, the last batch of the stream up to which all batches are finished
--       enter, '1' to register, '0' only to stay registered
-- Reply: 'entered <finished> <stream before, or '-'> <finished of that stream>' or
--   'taken <ms until it no longer counts as alive>'.
-- include: clock
local now = clock()
local known_run, known_stream, alive_until, known_finished, before, before_finished =
  unpack(redis.call('HMGET', consumer, 'run', 'stream', 'until', 'finished', 'before', 'before_finished'))
local left = (tonumber(alive_until) or 0) - now
if known_run ~= run then
  if enter == '0' then return 'taken ' .. math.max(0, left) end
  if known_run and known_stream ~= stream and left > 0 then return 'taken ' .. left end
end
redis.call('PERSIST', consumer) -- Redis allows this write at maxmemory, and then every later write of the script
if known_stream ~= stream then
  -- If the consumer returns to the stream before, the number recorded as finished for that stream still holds.
  before, before_finished, known_finished = known_stream, known_finished, before == stream and before_finished or nil
end
finished = math.max(tonumber(known_finished) or 0, finished)
before, before_finished = before or '-', before_finished or '0'
redis.call('HSET', consumer, 'run', run, 'stream', stream, 'until', now + alive_ms, 'finished', finished,
  'before', before, 'before_finished', before_finished)
redis.call('PEXPIRE', consumer, remembered_ms)
return 'entered ' .. finished .. ' ' .. before .. ' ' .. before_finished
