-- Moves messages of a stage to their groups, about 8 MiB of them at most; returns how many.
-- include: ready
-- include: fitting
-- include: arrived
-- include: distinct
-- A second result: how many of them were not accepted, because their keys are taken.
local function restock(stage, _, most, element)
  local moved, bytes, refused, again = 0, 0, 0, string.find(element, '^%d+ 2 ')
  while moved < most and bytes < 8388608 do
    local got = redis.call('LPOP', stage, math.min(most - moved, fitting(stage, 0, moved, bytes)))
    if not got then break end
    for i = 1, #got do bytes = bytes + #got[i] end
    moved = moved + #got
    if again then set_unique(got, 'w') -- these were in the queue before
    else
      local fresh = distinct(got)
      refused = refused + #got - #fresh
      got = fresh
    end
    enqueue(got)
    if not again then arrived(got) end
  end
  return moved, refused
end
