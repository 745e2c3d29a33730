-- Shows entries at one end of a list; changes nothing.
-- KEYS: list
-- ARGV: count:number, above 0 from the right end, below 0 from the left end
-- Reply: the entries.
-- include: entries
if count > 0 then return entries(list, -count, -1) end
return entries(list, 0, -count - 1)
