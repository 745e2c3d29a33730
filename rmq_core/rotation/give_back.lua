-- Makes popped ids new again, at the end of the list where the next pop begins.
-- KEYS: slot  list  taken  waiters  wake
-- ARGV: seq  slot_ttl_ms  channel, of notifications  scope, 'whole' for all of them or none, else 'some'
--       entries..., for each id its popped entry and its new entry
-- Reply: 'returned <one letter per id: s new again, l popped by another client since, or done>', 'lost' or
--   'superseded'.
-- include: clock
-- include: replay
-- include: notify
-- include: stamps
local earlier = replay()
if earlier then return earlier end
local n, letters, places = #entries / 2, {}, {}
local seen = awaited(waiters, wake)
for i = 1, n do
  local entry = entries[2 * i - 1]
  places[i] = redis.call('HEXISTS', taken, (stamp_of(entry))) == 1 and redis.call('LPOS', list, entry)
  if scope == 'whole' and not places[i] then return refuse('lost') end
end
redis.call('PERSIST', slot) -- Redis allows this write at maxmemory, and then every later write of the script
for i = n, 1, -1 do -- the oldest goes last, so that it is popped first again
  local entry = entries[2 * i - 1]
  letters[i] = 'l'
  if places[i] and redis.call('LREM', list, 1, entry) == 1 then
    redis.call('RPUSH', list, entries[2 * i])
    local id = stamp_of(entry)
    if redis.call('HINCRBY', taken, id, -1) <= 0 then redis.call('HDEL', taken, id) end
    letters[i] = 's'
  end
end
if seen then notify(waiters, wake, channel, clock(), seen) end
return remember('returned ' .. table.concat(letters))
