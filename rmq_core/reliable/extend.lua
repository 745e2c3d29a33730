-- Moves the time until which messages are held; never to an earlier time, and for all of them or none. Harmless to
-- repeat.
-- KEYS: claims
-- ARGV: token  lease_ms:number, from now  timeout_ms:number, for which a claim holds by itself  ids..., of the messages
-- Reply: the new time in ms, the earliest of them, or 'lost'.
-- include: clock
-- include: entries
local now, notes, earliest = clock(), {}, math.huge
for i = 1, #ids do
  local claim = redis.call('HGET', claims, ids[i])
  if holder(claim) ~= token then return 'lost' end
  local since, til = string.match(claim, '^%S+ (%d+) (%d+)$')
  til = tonumber(til) > 0 and tonumber(til) or since + timeout_ms
  til = math.max(til, now + lease_ms)
  notes[i] = token .. ' ' .. since .. ' ' .. til
  earliest = math.min(earliest, til)
end
redis.call('PERSIST', claims) -- Redis allows this write at maxmemory, and then every later write of the script
for i = 1, #ids do redis.call('HSET', claims, ids[i], notes[i]) end
return tostring(earliest)
