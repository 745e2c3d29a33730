-- The messages ARGV[from] to ARGV[to] with their envelope's beginning: no delivery, enqueued now, no history. To write
-- it takes longer than to store them, so a publisher that was told the time (`told`, '0' for never) has written it
-- itself, and this stands when it was told less than half a second ago.
local function stamped(told, now, from, to)
  local since, stamp, found = now - told, '0 ' .. now .. ' 0 ', {}
  if since >= 0 and since < 500 then return {unpack(ARGV, from, to)} end
  if told == '0' then
    for i = from, to do found[i - from + 1] = stamp .. ARGV[i] end
  else
    for i = from, to do found[i - from + 1] = stamp .. string.sub(ARGV[i], #told + 6) end
  end
  return found
end
