-- Returns the text of a header in an envelope whose part of the client begins at `stop`; nil without it. opening: what
-- precedes the text. That may be in the payload too; in the value of another header, its quotes are escaped.
local function header_in(envelope, stop, opening)
  local at = string.find(envelope, opening, stop, true)
  if not at then return nil end
  local size, first = string.match(envelope, '^%S+ %a(%d+) ()', stop)
  return size and at < first + size and string.match(envelope, '^([^"]*)"', at + #opening) or nil
end
