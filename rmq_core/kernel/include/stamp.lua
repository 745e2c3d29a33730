-- Returns the part of an envelope (see envelope.lua) before the id, for a new message.
local function stamp(now)
  return '0 ' .. now .. ' 0 '
end
-- Stamps each message, in place. Writing the stamps here costs more than storing the messages. Therefore a publisher
-- that knows the server's time writes them itself and passes that time as `stamp_ms`, else '0'. This function keeps
-- those stamps if that time is less than half a second ago.
local function stamped(stamp_ms, now, messages)
  local since = now - stamp_ms
  if since >= 0 and since < 500 then return messages end
  local new = stamp(now)
  if stamp_ms == '0' then
    for i = 1, #messages do messages[i] = new .. messages[i] end
  else
    local behind = #stamp(stamp_ms) + 1
    for i = 1, #messages do messages[i] = new .. string.sub(messages[i], behind) end
  end
  return messages
end
