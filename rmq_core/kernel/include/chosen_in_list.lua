-- Removes chosen entries of a list near the places where they were read, however long the list is. Entries that are not
-- found there stay: others moved or removed them. side: the end of the list, left or right, from which places count.
-- chosen_in_list() returns the places of the entries `letters` between `first` and `last`, or up to 64 places beside them,
-- and the entries, both in the order of places. It reads about 12 MiB at most.
-- remove_from_list() overwrites these entries with a text that no entry has, and removes that text in one command.
local function chosen_in_list(list, side, first, last, letters)
  local wanted, missing, places, found, bytes = {}, #letters, {}, {}, 0
  for i = 1, #letters do wanted[letters[i]] = (wanted[letters[i]] or 0) + 1 end
  local lo, stop = math.max(0, first - 64), last + 64
  while lo <= stop and missing > 0 and bytes < 12582912 do
    local hi = math.min(stop, lo + 127)
    local got = side == 'left' and redis.call('LRANGE', list, lo, hi) or redis.call('LRANGE', list, -hi - 1, -lo - 1)
    for n = 1, #got do
      local entry = got[side == 'left' and n or #got - n + 1]
      bytes = bytes + #entry
      if (wanted[entry] or 0) > 0 then
        wanted[entry], missing = wanted[entry] - 1, missing - 1
        places[#places + 1], found[#found + 1] = lo + n - 1, entry
      end
    end
    if #got == 0 then break end
    lo = hi + 1
  end
  return places, found
end
local function remove_from_list(list, side, places, gone)
  for i = 1, #places do redis.call('LSET', list, side == 'left' and places[i] or -places[i] - 1, gone) end
  if #places > 0 then redis.call('LREM', list, side == 'left' and #places or -#places, gone) end
end
