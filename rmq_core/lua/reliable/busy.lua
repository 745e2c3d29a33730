-- Tells which workers a reaper has to look at: those that hold something, or have not been seen for a day. Changes nothing.
-- KEYS: 1 workers  2... processing lists, each followed by its claims
-- ARGV: 1 number of workers  2... their names
-- Reply: their names.
-- include: clock
local since, found = clock() - 86400000, {}
for i = 1, tonumber(ARGV[1]) do
  local name, list = ARGV[1 + i], 2 * i
  local held = redis.call('EXISTS', KEYS[list], KEYS[list + 1]) > 0
  local seen = not held and redis.call('ZSCORE', KEYS[1], name)
  if held or (seen and tonumber(seen) < since) then found[#found + 1] = name end
end
return found
