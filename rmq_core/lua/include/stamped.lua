-- The messages with their envelope's beginning: no delivery, enqueued now, no history. To write it takes longer than to
-- store them, so a publisher that was told the time (`told`, '0' for never) has written it itself, and this stands when
-- it was told less than half a second ago. The same table, in which the others are written anew.
local function stamped(told, now, messages)
  local since = now - told
  if since >= 0 and since < 500 then return messages end
  local stamp = '0 ' .. now .. ' 0 '
  if told == '0' then
    for i = 1, #messages do messages[i] = stamp .. messages[i] end
  else
    local behind = #told + 6
    for i = 1, #messages do messages[i] = stamp .. string.sub(messages[i], behind) end
  end
  return messages
end
