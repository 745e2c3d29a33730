-- Returns the isolated messages by the failure that they have in common: {<how many>, <how many of them a claim may
-- take>, ...}. After 100 failures, one entry counts the messages of all others. isolated: how many there are.
-- include: mark
-- include: next_isolated
local function isolated_groups(delayed, isolated)
  local found, counted, score = {}, 0, '(0'
  while counted < isolated and #found < 200 do
    local first, at = next_isolated(delayed, score)
    local _, _, most = mark_of(first)
    local size = redis.call('ZCOUNT', delayed, at, at)
    found[#found + 1], found[#found + 2] = size, math.max(1, most)
    counted, score = counted + size, '(' .. at
  end
  if counted < isolated then found[#found + 1], found[#found + 2] = isolated - counted, 1 end
  return found
end
