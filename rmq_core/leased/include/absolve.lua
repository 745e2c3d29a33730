-- Returns a dead letter as a message with a fresh delivery budget: no deliveries, a history without isolation marks, no
-- expiry. A mark with an addition of a later version is set to zeros, so that the addition stays.
-- include: envelope
-- include: timeless
local function unmarked(addition)
  return addition == '' and '\n' or '\0310 0 0 0' .. addition .. '\n'
end
local function absolve(envelope)
  local _, kept, history, body = parts_of(envelope)
  return written(0, kept, (string.gsub(history, '\31%d+ %d+ %d+ %d+([^\n]*)\n', unmarked)), '', timeless(body))
end
