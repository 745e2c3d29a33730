-- Removes messages from a processing list: acked, released (requeued unchanged) or nacked (requeued as failed).
-- KEYS: slot  processing  claims  queue  dead
-- ARGV: seq  slot_ttl_ms  token  verb, ack, release or nack  scope, 'whole' for all of them or none, else 'some'
--       worker  reason  max_deliveries:number, or 0  max_dead:number  entries..., of the messages, oldest first
-- Reply: 'settled <one letter per message: s settled, d dead, m missing, l lost>' and trimmed dead letters, 'lost' or 'superseded'.
-- include: clock
-- include: replay
-- include: entries
-- include: set_aside
local earlier = replay()
if earlier then return earlier end
local ids, held, letters = {}, {}, {}
for i = 1, #entries do
  ids[i] = id_of(entries[i])
  held[i] = holder(redis.call('HGET', claims, ids[i])) == token
  if scope == 'whole' and not held[i] then return refuse('lost') end
end
redis.call('LLEN', processing) -- refuses a wrong type before anything is written
redis.call('LLEN', queue)
redis.call('LLEN', dead)
redis.call('PERSIST', slot) -- at maxmemory Redis allows this write and, after it, the later ones
local how = {add = verb == 'nack' and 1 or 0, max_deliveries = max_deliveries, max_dead = max_dead,
             entry = table.concat({'nack', clock(), worker, reason}, '\t') .. '\n'}
local k = {queue = queue, dead = dead}
-- From newest to oldest: the oldest is requeued last, so it is claimed first, and LREM finds each near the head.
for i = #entries, 1, -1 do
  local entry = entries[i]
  if not held[i] then letters[i] = 'l'
  else
    redis.call('HDEL', claims, ids[i])
    if redis.call('LREM', processing, 1, entry) == 0 then letters[i] = 'm' -- it was removed by hand
    elseif verb == 'ack' then letters[i] = 's'
    else letters[i] = set_aside(k, entry, how) and 'd' or 's' end
  end
end
return remember(reported('settled ' .. table.concat(letters)))
