-- Returns the entries that a lease holds.
-- KEYS: stream
-- ARGV: group  token
-- Reply: {entry id...}
-- include: holder
local ids = {}
for i, entry in ipairs(held(stream, group, token, 4000)) do ids[i] = entry[1] end
return ids
