-- Moves messages of a stage to their groups, about 8 MiB of them at most; returns how many.
-- include: ready
-- include: fitting
-- include: arrived
local function restock(stage, _, most, element)
  local moved, bytes = 0, 0
  while moved < most and bytes < 8388608 do
    local got = redis.call('LPOP', stage, math.min(most - moved, fitting(stage, 0, moved, bytes)))
    if not got then break end
    for i = 1, #got do bytes = bytes + #got[i] end
    enqueue(got)
    if not string.find(element, '^%d+ 2 ') then arrived(got) end -- else they were in the queue before
    moved = moved + #got
  end
  return moved
end
