-- Returns a page of a list, about 4 MiB of it at most; changes nothing.
-- KEYS: list
-- ARGV: side, 'left' or 'right': the end at which the first page begins  offset:number, how many entries are before it
--       most:number, how many to return  last, SHA1 of the entry before, '' for the first page
-- Reply: {1 if another entry is before the page now, else 0, entries, how many entries the list has}.
-- include: batches
-- include: entries
local function part(lo, hi)
  if side == 'left' then return entries(list, lo, hi) end
  local got, turned = entries(list, -hi - 1, -lo - 1), {}
  for i = #got, 1, -1 do turned[#turned + 1] = got[i] end
  return turned
end
local moved = 0
if last ~= '' then
  local at = side == 'left' and offset - 1 or -offset
  local before = entries(list, at, at)[1]
  if not before or redis.sha1hex(before) ~= last then moved = 1 end
end
local page = in_batches(most, function(done, n) return part(offset + done, offset + done + n - 1) end)
return {moved, page, count_of(list)}
