-- Takes over jobs whose worker is silent, on servers without XREADGROUP CLAIM.
-- KEYS: ready  paused
-- ARGV: group  consumer  stale_ms, a worker's lease: how long it may be silent  start, id of the first entry to check
--       most, how many at most
-- Reply: {id to start the next call from, entries {id, fields, 0, deliveries before}}.
if redis.call('EXISTS', paused) == 1 then return {start, {}} end
local reply = redis.call('XAUTOCLAIM', ready, group, consumer, stale_ms, start, 'COUNT', most)
local found = {}
for _, entry in ipairs(reply[2]) do
  if entry and entry[2] then
    local before = redis.call('XPENDING', ready, group, entry[1], entry[1], 1)[1]
    found[#found + 1] = {entry[1], entry[2], 0, before[4] - 1}
  end
end
return {reply[1], found}
