-- Returns a slice of the messages that are under no lease, at most about 8 MiB of it; changes nothing.
-- KEYS: key, list or sorted set  ready
-- ARGV: offset:number, how many to skip  most:number, how many to show  kind, 'list', or of the sorted set of delayed
--         messages 'delayed', those that have a due time, or 'isolated', the others in the order of claiming
-- Reply: {entries in all, entries, their due times, which only delayed ones have}.
-- include: apart
if kind == 'isolated' then
  local total, found = apart(key, offset, offset + most - 1)
  return {total, found, {}}
end
-- include: entries
-- include: next_isolated
local found, due, bytes = {}, {}, 0
local isolated = kind == 'list' and 0 or isolated_in(key)
local total = kind == 'list' and count_of(key) or redis.call('ZCARD', key) - isolated
local function slice(lo, hi)
  if kind == 'list' then return entries(key, lo, hi) end
  local got, entries = redis.call('ZRANGE', key, isolated + lo, isolated + hi, 'WITHSCORES'), {}
  for i = 1, #got, 2 do entries[#entries + 1], due[#due + 1] = got[i], got[i + 1] end
  return entries
end
local lo, last = offset, math.min(offset + most, total) - 1
while lo <= last and bytes <= 8388608 do
  local got = slice(lo, math.min(lo + 7, last))
  for i = 1, #got do
    found[#found + 1] = got[i]
    bytes = bytes + #got[i]
  end
  lo = lo + #got
end
return {total, found, due}
