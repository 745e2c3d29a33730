-- Moves messages of a stage to their groups, about 8 MiB of them at most; returns how many.
-- include: ready
-- include: fitting
-- include: arrived
-- include: distinct
-- Further results: how many of them were not accepted, because their keys are taken; the ids of those that they replaced.
local function restock(stage, _, most, element)
  local moved, bytes, refused, replaced, again = 0, 0, 0, {}, string.find(element, '^%d+ 2 ')
  while moved < most and bytes < 8388608 do
    local got = redis.call('LPOP', stage, math.min(most - moved, fitting(stage, 0, moved, bytes)))
    if not got then break end
    for i = 1, #got do bytes = bytes + #got[i] end
    moved = moved + #got
    if again then enqueue(got) -- these were in the queue before
    else
      local fresh = distinct(got)
      enqueue(fresh)
      arrived(fresh)
      local ids = replace()
      for i = 1, #ids do replaced[#replaced + 1] = ids[i] end
      refused = refused + #got - #fresh - #ids
    end
  end
  return moved, refused, replaced
end
