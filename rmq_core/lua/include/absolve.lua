-- Returns a dead letter as a message with a fresh delivery budget: no deliveries, a history without isolation marks.
-- include: envelope
local function absolve(envelope)
  local _, kept, history, body = parts_of(envelope)
  return written(0, kept, (string.gsub(history, '\31[%d ]+\n', '\n')), '', body)
end
