-- Returns a slice of the messages that are under no lease, at most about 8 MiB of it; changes nothing.
-- KEYS: key, list or sorted set
-- ARGV: offset:number, how many to skip  most:number, how many to show  kind, 'list', or of the sorted set of delayed
--         messages 'delayed', those that have a due time, or 'isolated', the others in the order of claiming
-- Reply: {entries in all, entries, their due times, which only delayed ones have}.
-- include: next_isolated
-- include: entries
local found, due, bytes = {}, {}, 0
local isolated = kind == 'list' and 0 or isolated_in(key)
local rest = kind == 'list' and count_of(key) or redis.call('ZCARD', key) - isolated
local total = kind == 'isolated' and isolated or rest
-- Isolated messages come first in the set; among them, the group that is claimed first comes last. Within a group, the
-- set has the order of claiming. Therefore a slice ends with its group.
local function of_group(lo, hi)
  local at = redis.call('ZREVRANGE', key, rest + lo, rest + lo, 'WITHSCORES')[2]
  local before, size = redis.call('ZCOUNT', key, '(' .. at, '(0'), redis.call('ZCOUNT', key, at, at)
  local first = isolated - before - size
  return redis.call('ZRANGE', key, first + lo - before, first + math.min(hi - before, size - 1))
end
local function slice(lo, hi)
  if kind == 'list' then return entries(key, lo, hi) end
  if kind == 'isolated' then return of_group(lo, hi) end
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
