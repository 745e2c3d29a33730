-- Adds a chunk of imported ids and stores the progress of the import; does both or neither.
-- KEYS: slot  progress  list  waiters  wake
-- ARGV: seq  slot_ttl_ms  before, the progress so far, '' for none  after, the progress with this chunk  keep_ms
--       bell, a pub/sub channel  entries..., oldest first
-- Reply: 'imported', 'elsewhere' if another import stored other progress, or 'superseded'.
-- include: clock
-- include: replay
-- include: imported
-- include: notify
local earlier = replay()
if earlier then return earlier end
local refusal = at_start(progress, before)
if refusal then return refusal end
local seen = awaited(waiters, wake)
if #entries > 0 then
  redis.call('LPUSH', list, unpack(entries))
  if seen then notify(waiters, wake, bell, clock(), seen) end
end
return at_end(progress, after, keep_ms)
