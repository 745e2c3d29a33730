-- Moves chosen dead letters back to ready with a fresh delivery budget, the oldest first; their history stays.
-- KEYS: slot  dead  ready  waiters  wake
-- ARGV: seq  slot_ttl_ms  channel, of notifications  first:number, place of the first of them, counted from the right end
--       last:number, place of the last  letters..., the dead letters, oldest first
-- Reply: 'redriven <count>' or 'superseded'; letters that are no longer near their places do not count.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: ready
-- include: arrived
-- include: notify
-- include: absolve
-- include: chosen
local places, found = chosen_in(dead, 'right', first, last, letters)
if #found == 0 then return refuse('redriven 0') end
local seen, fresh = awaited(waiters, wake), {}
for i = 1, #found do fresh[i] = absolve(found[i]) end
append(fresh) -- a full server refuses this first write, so nothing is redriven
if arrived then arrived(fresh, fresh) end
remove_chosen(dead, 'right', places, slot .. ' ' .. seq)
if seen then notify(waiters, wake, channel, clock(), seen) end
return remember('redriven ' .. #found)
