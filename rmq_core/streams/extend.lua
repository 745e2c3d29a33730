-- Moves the deadline of a lease, never to an earlier time. Harmless to repeat.
-- KEYS: stream
-- ARGV: group  token  stale_ms:number, after which an entry is stale  lease_ms:number
--       least:number, entries that the lease must hold
-- Reply: the deadline in ms, or 'lost'.
-- include: clock
-- include: holder
local idle, ids = 0, {}
for i, entry in ipairs(held(stream, group, token, 4000)) do
  ids[i] = entry[1]
  idle = math.max(idle, entry[3])
end
if #ids == 0 or #ids < least then return 'lost' end
local wanted = stale_ms - lease_ms
if wanted < idle then
  since(stream, group, token, ids, wanted)
  idle = wanted
end
return clock() + stale_ms - idle
