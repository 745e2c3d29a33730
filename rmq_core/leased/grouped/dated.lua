-- Returns a message with the time at which it expires, and that time in ms; nil if it does not. The header is that time,
-- or '+' and how long after the publication, as many digits as the time has. stop: where the client's part begins.
-- include: header_in
local function dated(envelope, stop)
  local opening = '"rmq-expires":"'
  local text = header_in(envelope, stop, opening)
  local sign, ms = string.match(text or '', '^(%+?)(%d+)$')
  if not ms or #text ~= 13 then return envelope end
  if sign == '+' then
    ms = string.format('%013.0f', ms + string.match(envelope, '^%d+ (%d+)'))
    local at = string.find(envelope, opening, stop, true) + #opening
    envelope = string.sub(envelope, 1, at - 1) .. ms .. string.sub(envelope, at + 13)
  end
  return envelope, tonumber(ms)
end
