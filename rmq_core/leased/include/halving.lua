-- Isolates messages that failed together twice, and halves how many of their group a claim may take. Returns the result
-- of a failure for messages with this mark (see mark.lua; how: see give_back.lua): the new line of history, the group,
-- and how many deliveries they are not blamed for. Most messages of a lease share one mark. The first joint failure
-- isolates nothing, because usually the worker caused it.
local function blamed(mark, how)
  local failures, group, most, shared = 0, 0, 0, 0
  if mark then failures, group, most, shared = string.match(mark, '(%d+) (%d+) (%d+) (%d+)') end
  failures, group, shared = tonumber(failures), tonumber(group), shared + how.shared
  if how.together > 1 then
    failures = failures + 1
    if failures > 1 then group, most = how.group, math.ceil(how.together / 2) end
  elseif group > 0 then
    group, most = how.group, 1
  end
  local text = ''
  if failures > 0 or shared > 0 then text = '\31' .. failures .. ' ' .. group .. ' ' .. most .. ' ' .. shared end
  return {line = how.entry .. text .. '\n', group = group, shared = shared}
end
