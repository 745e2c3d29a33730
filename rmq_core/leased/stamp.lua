-- Lets a shard refuse messages from publishers that know an older map. Where the queue was in one slot before, makes its
-- keys those of the first shard.
-- KEYS: slot  epoch  ready  line?, the list of ready messages of a queue in one slot  format?
-- ARGV: seq  slot_ttl_ms  new_epoch:number  format_text?
-- Reply: 'stamped', 'grouped' (its messages wait in groups) or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
if line and redis.call('TYPE', line).ok ~= 'string' then
  assert(line ~= ready, 'this client does not know yet that the queue has shards')
  redis.call('LLEN', ready) -- refuses a wrong type before anything is written
  if redis.call('EXISTS', line) == 1 then
    -- Clients that know the map already have given back messages to where they will be ready.
    while redis.call('LMOVE', ready, line, 'RIGHT', 'LEFT') do end
    redis.call('RENAME', line, ready)
  end
  redis.call('SET', line, 'shards')
  redis.call('SET', format, format_text)
elseif line and string.sub(redis.call('GET', format) or '', 1, 2) == '2 ' then
  return refuse('grouped')
end
if tonumber(redis.call('GET', epoch) or 0) < new_epoch then redis.call('SET', epoch, string.format('%.0f', new_epoch)) end
return remember('stamped')
