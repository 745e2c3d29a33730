-- cut() keeps the newest dead letters and counts those that it deletes; reported() adds their number to a reply, behind
-- a tab, which no id or owner has.
local trimmed = 0
local function cut(dead, length, cap)
  if length <= cap then return end
  redis.call('LTRIM', dead, 0, cap - 1)
  trimmed = trimmed + length - cap
end
local function reported(reply) return trimmed == 0 and reply or reply .. '\t' .. trimmed end
