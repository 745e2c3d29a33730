-- Removes messages from a processing list: done with, given back untouched, or given back as failed.
-- KEYS: 1 slot  2 processing  3 claims  4 queue  5 dead
-- ARGV: 1 seq  2 slot ttl ms  3 token  4 ack, release or nack  5 'whole' for all of them or none, else 'some'  6 worker
--       7 reason  8 max deliveries or 0  9 dead letter cap  10 number of messages  11... their entries, oldest first
-- Reply: 'settled <one letter per message: s settled, d dead, m missing, l lost>', 'lost' or 'superseded'.
-- include: clock
-- include: replay
-- include: recount
-- include: entries
-- include: set_aside
local earlier = replay()
if earlier then return earlier end
local ids, held, letters = {}, {}, {}
local n = tonumber(ARGV[10])
for i = 1, n do
  ids[i] = id_of(ARGV[10 + i])
  held[i] = holder(redis.call('HGET', KEYS[3], ids[i])) == ARGV[3]
  if ARGV[5] == 'whole' and not held[i] then return refuse('lost') end
end
redis.call('LLEN', KEYS[2]) -- refuses a wrong type before anything is written
redis.call('LLEN', KEYS[4])
redis.call('LLEN', KEYS[5])
redis.call('PERSIST', KEYS[1]) -- a write that a full server does not deny opens the door for the next
local how = {add = ARGV[4] == 'nack' and 1 or 0, max_deliveries = tonumber(ARGV[8]), max_dead = tonumber(ARGV[9]),
             entry = table.concat({'nack', clock(), ARGV[6], ARGV[7]}, '\t') .. '\n'}
local k = {queue = KEYS[4], dead = KEYS[5]}
for i = n, 1, -1 do -- the newest first: so the oldest ends up at the claim end, and LREM finds each near the head
  local entry = ARGV[10 + i]
  if not held[i] then letters[i] = 'l'
  else
    redis.call('HDEL', KEYS[3], ids[i])
    if redis.call('LREM', KEYS[2], 1, entry) == 0 then letters[i] = 'm' -- somebody removed it by hand
    elseif ARGV[4] == 'ack' then letters[i] = 's'
    else letters[i] = set_aside(k, entry, how) and 'd' or 's' end
  end
end
return remember('settled ' .. table.concat(letters))
