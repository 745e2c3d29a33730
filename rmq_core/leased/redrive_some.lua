-- Moves chosen dead letters back to ready with a fresh delivery budget; their history stays.
-- KEYS: slot  dead  ready  waiters  wake
-- ARGV: seq  slot_ttl_ms  channel, of notifications  letters..., the dead letters, each once
-- Reply: 'redriven <count>' or 'superseded'; letters that are no longer in `dead` do not count.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: ready
-- include: arrived
-- include: notify
-- include: absolve
local chosen, fresh = {}, {}
for i = 1, #letters do
  if redis.call('LPOS', dead, letters[i]) then
    chosen[#chosen + 1] = letters[i]
    fresh[#fresh + 1] = absolve(letters[i])
  end
end
if #fresh == 0 then return refuse('redriven 0') end
local seen = awaited(waiters, wake)
append(fresh) -- a full server refuses this first write, so nothing is redriven
if arrived then arrived(fresh, fresh) end
for i = 1, #chosen do redis.call('LREM', dead, 1, chosen[i]) end
if seen then notify(waiters, wake, channel, clock(), seen) end
return remember('redriven ' .. #fresh)
