-- Adds entries to the journal of a queue and trims it.
-- KEYS: slot  journal
-- ARGV: seq  slot_ttl_ms  most:number, how many entries are kept, 0 to keep them for a time  keep_ms:number, that time
--       entries..., JSON arrays of a field and its value, and so on
-- Reply: 'written' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
local bound, limit = 'MAXLEN', most
if most == 0 then bound, limit = 'MINID', string.format('%.0f', clock() - keep_ms) end
for i = 1, #entries do redis.call('XADD', journal, bound, '~', limit, '*', unpack(cjson.decode(entries[i]))) end
return remember('written')
