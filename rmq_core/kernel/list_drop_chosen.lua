-- Deletes chosen entries of a list, and the deduplication keys of those that it finds.
-- KEYS: slot  list  markers..., deduplication keys, one per entry or none
-- ARGV: seq  slot_ttl_ms  side, left or right: the end from which places count  first:number, place of the first of them
--       last:number, place of the last  window_ms:number, of deduplication, 0 without markers  letters..., the entries
-- Reply: 'removed <count>' or 'superseded'; entries that are no longer near their places do not count.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: envelope
-- include: chosen
redis.call('PERSIST', slot) -- a full server allows this write and the later ones, so the queue can be emptied
local places, found = chosen_in(list, side, first, last, letters)
remove_chosen(list, side, places, slot .. ' ' .. seq)
local markers_of, free, now = {}, {}, clock()
for i = 1, #markers do markers_of[letters[i]] = markers[i] end
for i = 1, #found do
  local marker, published = markers_of[found[i]], enqueued(found[i])
  -- The key of a message older than the window has expired: if it exists, it belongs to another message.
  if marker and published and now - published < window_ms then free[#free + 1] = marker end
end
if #free > 0 then redis.call('UNLINK', unpack(free)) end
return remember('removed ' .. #found)
