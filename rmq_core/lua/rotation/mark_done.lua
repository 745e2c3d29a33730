-- Notes that ids are done; their entries are dropped when the list has turned to them. Only an id that is in progress
-- can be done: noting any other would drop a later job of that id.
-- KEYS: 1 slot  2 done  3 taken
-- ARGV: 1 seq  2 slot ttl ms  3 number of ids  4... the ids
-- Reply: 'marked <one letter per id: s marked, l not in progress>' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
local letters = {}
redis.call('ZCARD', KEYS[2]) -- refuses a wrong type before anything is written
redis.call('PERSIST', KEYS[1]) -- a write that a full server does not deny opens the door for the next
for i = 1, tonumber(ARGV[3]) do
  local id = ARGV[3 + i]
  if redis.call('HEXISTS', KEYS[3], id) == 1 then
    redis.call('ZINCRBY', KEYS[2], 1, id)
    if redis.call('HINCRBY', KEYS[3], id, -1) <= 0 then redis.call('HDEL', KEYS[3], id) end
    letters[i] = 's'
  else
    letters[i] = 'l'
  end
end
return remember('marked ' .. table.concat(letters))
