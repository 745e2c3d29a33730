-- Puts the first fields of the envelope in front of each message, in place: 0 deliveries, enqueued now, no history.
-- Writing them here costs more than storing the messages. So a publisher that knows the server's time writes them itself
-- and passes that time as `told` ('0': it has not). They are kept when that time is less than half a second ago.
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
