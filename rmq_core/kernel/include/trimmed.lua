-- cut() keeps the newest dead letters and counts those that it deletes. reported() adds to a reply, behind a tab, which no
-- id or owner has: how many were deleted and, if they made the script pause the queue, the breaker (see breaker.lua).
local trimmed, tripped = 0, ''
local function cut(dead, length, cap)
  if length <= cap then return end
  redis.call('LTRIM', dead, 0, cap - 1)
  trimmed = trimmed + length - cap
end
local function reported(reply)
  if trimmed == 0 and tripped == '' then return reply end
  return reply .. '\t' .. trimmed .. tripped
end
