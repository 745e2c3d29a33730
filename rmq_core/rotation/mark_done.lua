-- Marks ids as done; their entries are dropped when the rotation reaches them. Only an id that is in progress can be
-- marked: marking any other would drop a later job of that id.
-- KEYS: slot  done  taken
-- ARGV: seq  slot_ttl_ms  ids...
-- Reply: 'marked <one letter per id: s marked, l not in progress>' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
local letters = {}
redis.call('ZCARD', done) -- refuses a wrong type before anything is written
redis.call('PERSIST', slot) -- Redis allows this write at maxmemory, and then every later write of the script
for i = 1, #ids do
  local id = ids[i]
  if redis.call('HEXISTS', taken, id) == 1 then
    redis.call('ZINCRBY', done, 1, id)
    if redis.call('HINCRBY', taken, id, -1) <= 0 then redis.call('HDEL', taken, id) end
    letters[i] = 's'
  else
    letters[i] = 'l'
  end
end
return remember('marked ' .. table.concat(letters))
