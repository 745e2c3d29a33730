-- Reads a part of the journal of a queue and returns the entries that may be about a message; changes nothing.
-- KEYS: journal
-- ARGV: after, the id of the last entry that was read, '-' for none  most:number, how many to read
--       whole, the id of the message  ending, its part from the last '-' on, or the id
--       leases..., those that held it, as far as known
-- Reply: {the id of the last entry that was read or '', entries: {id, fields}...}.
local known, found, last = {}, {}, ''
for i = 1, #leases do known[leases[i]] = true end
for _, entry in ipairs(redis.call('XRANGE', journal, after == '-' and '-' or '(' .. after, '+', 'COUNT', most)) do
  local fields = {}
  for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
  local ids = ' ' .. (fields.i or '') .. ' '
  local named = string.find(ids, ' ' .. whole .. ' ', 1, true) or string.find(ids, ending .. ' ', 1, true)
  if named and fields.l then known[fields.l] = true end
  if named or (fields.l and known[fields.l]) or fields.e == 'redriven' then found[#found + 1] = entry end
  last = entry[1]
end
return {last, found}
