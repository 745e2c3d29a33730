-- Moves the deadline of a lease, never to an earlier time. Harmless to repeat.
-- KEYS: 1 stream
-- ARGV: 1 group  2 token  3 ms after which an entry is stale  4 lease ms  5 entries that the lease must hold
-- Reply: the deadline in ms, or 'lost'.
-- include: clock
-- include: holder
local stale, idle, ids = tonumber(ARGV[3]), 0, {}
for i, entry in ipairs(held(KEYS[1], ARGV[1], ARGV[2], 4000)) do
  ids[i] = entry[1]
  idle = math.max(idle, entry[3])
end
if #ids == 0 or #ids < tonumber(ARGV[5]) then return 'lost' end
local wanted = stale - tonumber(ARGV[4])
if wanted < idle then
  since(KEYS[1], ARGV[1], ARGV[2], ids, wanted)
  idle = wanted
end
return clock() + stale - idle
