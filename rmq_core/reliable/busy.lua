-- Returns the workers that a reaper has to check: those that hold messages or have not been seen for a day. Changes
-- nothing.
-- KEYS: workers  lists..., of each of the names its processing list and its claims
-- ARGV: names..., of workers
-- Reply: their names.
-- include: clock
local since, found = clock() - 86400000, {}
for i = 1, #names do
  local name, processing, claims = names[i], lists[2 * i - 1], lists[2 * i]
  local held = redis.call('EXISTS', processing, claims) > 0
  local seen = not held and redis.call('ZSCORE', workers, name)
  if held or (seen and tonumber(seen) < since) then found[#found + 1] = name end
end
return found
