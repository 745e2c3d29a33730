-- Makes popped ids new again, at the end where the next pop looks first.
-- KEYS: 1 slot  2 list  3 taken  4 waiters  5 wake
-- ARGV: 1 seq  2 slot ttl ms  3 bell channel  4 'whole' for all of them or none, else 'some'  5 number of ids
--       6... for each its entry as popped and its entry as new
-- Reply: 'returned <one letter per id: s given back, l popped by somebody else since, or done>', 'lost' or 'superseded'.
-- include: clock
-- include: replay
-- include: ring
-- include: stamps
local earlier = replay()
if earlier then return earlier end
local n, letters, places = tonumber(ARGV[5]), {}, {}
local seen = awaited(KEYS[4], KEYS[5])
for i = 1, n do
  local entry = ARGV[4 + 2 * i]
  places[i] = redis.call('HEXISTS', KEYS[3], (stamp_of(entry))) == 1 and redis.call('LPOS', KEYS[2], entry)
  if ARGV[4] == 'whole' and not places[i] then return refuse('lost') end
end
redis.call('PERSIST', KEYS[1]) -- a write that a full server does not deny opens the door for the next
for i = n, 1, -1 do -- the oldest last, so that it is the first again
  local entry = ARGV[4 + 2 * i]
  letters[i] = 'l'
  if places[i] and redis.call('LREM', KEYS[2], 1, entry) == 1 then
    redis.call('RPUSH', KEYS[2], ARGV[5 + 2 * i])
    local id = stamp_of(entry)
    if redis.call('HINCRBY', KEYS[3], id, -1) <= 0 then redis.call('HDEL', KEYS[3], id) end
    letters[i] = 's'
  end
end
if seen then ring(KEYS[4], KEYS[5], ARGV[3], clock(), seen) end
return remember('returned ' .. table.concat(letters))
