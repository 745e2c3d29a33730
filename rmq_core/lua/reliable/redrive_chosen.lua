-- Moves chosen dead letters back to the queue with a fresh delivery budget, the oldest first; their history stays.
-- KEYS: slot  dead  queue
-- ARGV: seq  slot_ttl_ms  first:number, place of the first of them, counted from the right end  last:number, place of the
--         last  letters..., the dead letters, oldest first
-- Reply: 'redriven <count>' or 'superseded'; letters that are no longer near their places do not count.
-- include: replay
-- include: entries
-- include: chosen
-- include: forgiven
local earlier = replay()
if earlier then return earlier end
local places, found = chosen_in(dead, 'right', first, last, letters)
if #found == 0 then return refuse('redriven 0') end
local fresh = {}
for i = 1, #found do fresh[i] = forgiven(found[i]) end
redis.call('LPUSH', queue, unpack(fresh)) -- a full server refuses this first write, so nothing is redriven
remove_chosen(dead, 'right', places, slot .. ' ' .. seq)
return remember('redriven ' .. #found)
