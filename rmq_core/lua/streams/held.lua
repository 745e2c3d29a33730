-- The entries that a lease holds.
-- KEYS: 1 stream
-- ARGV: 1 group  2 token
-- Reply: {entry id...}
-- include: holder
local ids = {}
for i, entry in ipairs(held(KEYS[1], ARGV[1], ARGV[2], 4000)) do ids[i] = entry[1] end
return ids
