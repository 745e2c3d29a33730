-- Stores the settings of a queue, unless they are no longer what the caller read. Forgets which programs differed from
-- them: those that still do will say so again.
-- KEYS: slot  settings  differing
-- ARGV: seq  slot_ttl_ms  before, what the caller read, '' for nothing  after, what to store, '' for nothing
-- Reply: 'stored', 'changed' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
if (redis.call('GET', settings) or '') ~= before then return 'changed' end
if after == '' then
  redis.call('DEL', settings)
else
  redis.call('SET', settings, after)
end
redis.call('DEL', differing)
return remember('stored')
