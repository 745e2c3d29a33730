-- Moves chosen dead letters back to the stream with a fresh budget of attempts, the oldest first; their history stays.
-- KEYS: slot  dead  ready  events
-- ARGV: seq  slot_ttl_ms  events_cap:number  first:number, place of the first of them, counted from the right end
--       last:number, place of the last  letters..., the dead letters, oldest first
-- Reply: 'redriven <count>' or 'superseded'; letters that are no longer near their places do not count.
-- include: replay
-- include: envelope
-- include: jobs_entry
-- include: chosen
local earlier = replay()
if earlier then return earlier end
local places, found = chosen_in(dead, 'right', first, last, letters)
if #found == 0 then return refuse('redriven 0') end
redis.call('XLEN', ready) -- refuses a wrong type before anything is written
redis.call('XLEN', events)
local ids = {}
for i = 1, #found do
  local _, fresh = recount(found[i], {add = -deliveries(found[i]), entry = ''})
  redis.call('XADD', ready, '*', 'e', fresh) -- a full server refuses the first of these, so nothing is redriven
  ids[i] = message_id(fresh)
end
remove_chosen(dead, 'right', places, slot .. ' ' .. seq)
tell(events, events_cap, 'waiting', ids)
return remember('redriven ' .. #found)
