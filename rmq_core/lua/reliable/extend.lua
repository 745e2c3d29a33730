-- Moves the time until which messages are held; never to an earlier time, and for all of them or none. Harmless to repeat.
-- KEYS: 1 claims
-- ARGV: 1 token  2 ms from now  3 ms that a claim holds by itself  4 number of messages  5... their ids
-- Reply: the new time in ms, the earliest of them, or 'lost'.
-- include: clock
-- include: entries
local now, n, notes, earliest = clock(), tonumber(ARGV[4]), {}, math.huge
for i = 1, n do
  local claim = redis.call('HGET', KEYS[1], ARGV[4 + i])
  if holder(claim) ~= ARGV[1] then return 'lost' end
  local since, til = string.match(claim, '^%S+ (%d+) (%d+)$')
  til = tonumber(til) > 0 and tonumber(til) or since + tonumber(ARGV[3])
  til = math.max(til, now + tonumber(ARGV[2]))
  notes[i] = ARGV[1] .. ' ' .. since .. ' ' .. til
  earliest = math.min(earliest, til)
end
redis.call('PERSIST', KEYS[1]) -- a write that a full server does not deny opens the door for the next
for i = 1, n do redis.call('HSET', KEYS[1], ARGV[4 + i], notes[i]) end
return tostring(earliest)
