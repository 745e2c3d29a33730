-- Adds a chunk of imported messages in one state and stores the progress of the import; does both or neither.
-- KEYS: slot  progress  queue  dead
-- ARGV: seq  slot_ttl_ms  before, the progress so far, '' for none  after, the progress with this chunk  keep_ms
--       state, ready or dead  max_dead:number, cap of the dead letters  messages..., oldest first
-- Reply: 'imported', 'elsewhere' if another import stored other progress, 'full <setting>' or 'superseded'.
-- include: replay
-- include: imported
local earlier = replay()
if earlier then return earlier end
local refusal = at_start(progress, before)
if refusal then return refusal end
if state == 'dead' and redis.call('LLEN', dead) + #messages > max_dead then return refuse('full max_dead') end
if #messages > 0 then redis.call('LPUSH', state == 'dead' and dead or queue, unpack(messages)) end
return at_end(progress, after, keep_ms)
