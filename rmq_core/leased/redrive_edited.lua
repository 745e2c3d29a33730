-- Replaces a dead letter by a message with another body, which is ready and has a fresh delivery budget; a line is added
-- to its history.
-- KEYS: slot  dead  ready  waiters  wake
-- ARGV: seq  slot_ttl_ms  channel, of notifications  letter, the dead letter  new_body, see envelope.lua  owner, who edits it
--       reason, what was edited
-- Reply: 'redriven <1, or 0 if the letter is no longer in dead>' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: ready
-- include: arrived
-- include: notify
-- include: absolve
local now, seen = clock(), awaited(waiters, wake)
if not redis.call('LPOS', dead, letter) then return refuse('redriven 0') end
local _, kept, history = parts_of(absolve(letter))
local line = table.concat({'edited', now, owner, reason}, '\t') .. '\n'
local message = written(0, kept, history, line, timeless(new_body))
append({message}) -- a full server refuses this first write
if arrived then arrived({message}, {letter}) end
redis.call('LREM', dead, 1, letter)
if seen then notify(waiters, wake, channel, now, seen) end
return remember('redriven 1')
