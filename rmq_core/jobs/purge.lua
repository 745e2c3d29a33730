-- Deletes ready jobs (those that no worker holds, at most 4,000 at a time), delayed ones or dead letters.
-- KEYS: slot  ready  delayed  later  dead  paused
-- ARGV: seq  slot_ttl_ms  which, ready, delayed or dead  group
-- Reply: 'removed <count>' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
local removed = 0
if which == 'ready' then
  local last, ids = '0-0', {}
  for _, other in ipairs(redis.call('EXISTS', ready) == 1 and redis.call('XINFO', 'GROUPS', ready) or {}) do
    local info = {}
    for i = 1, #other, 2 do info[other[i]] = other[i + 1] end
    if info.name == group then last = info['last-delivered-id'] end
  end
  for i, entry in ipairs(redis.call('XRANGE', ready, '(' .. (redis.call('GET', paused) or last), '+', 'COUNT', 4000)) do ids[i] = entry[1] end
  if #ids > 0 then removed = redis.call('XDEL', ready, unpack(ids)) end
elseif which == 'delayed' then
  removed = redis.call('ZCARD', delayed)
  redis.call('UNLINK', delayed, later)
else
  removed = redis.call('LLEN', dead)
  redis.call('UNLINK', dead)
end
return refuse('removed ' .. removed)
