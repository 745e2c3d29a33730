-- Forgets ready jobs (those nobody has, at most 4,000 at a time), delayed ones or dead letters.
-- KEYS: 1 slot  2 ready  3 delayed  4 later  5 dead
-- ARGV: 1 seq  2 slot ttl ms  3 which: ready, delayed or dead  4 group
-- Reply: 'removed <count>' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
local removed = 0
if ARGV[3] == 'ready' then
  local last, ids = '0-0', {}
  for _, group in ipairs(redis.call('EXISTS', KEYS[2]) == 1 and redis.call('XINFO', 'GROUPS', KEYS[2]) or {}) do
    local info = {}
    for i = 1, #group, 2 do info[group[i]] = group[i + 1] end
    if info.name == ARGV[4] then last = info['last-delivered-id'] end
  end
  for i, entry in ipairs(redis.call('XRANGE', KEYS[2], '(' .. last, '+', 'COUNT', 4000)) do ids[i] = entry[1] end
  if #ids > 0 then removed = redis.call('XDEL', KEYS[2], unpack(ids)) end
elseif ARGV[3] == 'delayed' then
  removed = redis.call('ZCARD', KEYS[3])
  redis.call('UNLINK', KEYS[3], KEYS[4])
else
  removed = redis.call('LLEN', KEYS[5])
  redis.call('UNLINK', KEYS[5])
end
return refuse('removed ' .. removed)
