-- Returns the text of a header in an envelope whose part of the client begins at `stop`; nil without it. opening: what
-- precedes the text. That may be in the payload too; in the value of another header, its quotes are escaped.
local function header_in(envelope, stop, opening)
  local at = string.find(envelope, opening, stop, true)
  if not at then return nil end
  local size, first = string.match(envelope, '^%S+ %a(%d+) ()', stop)
  return size and at < first + size and string.match(envelope, '^([^"]*)"', at + #opening) or nil
end
-- The same for an envelope whose part of the client begins anywhere; most have no such header.
local function stored_header(envelope, opening)
  if not string.find(envelope, opening, 1, true) then return nil end
  local length, stop = string.match(envelope, '^%d+ %d+ (%d+) ()')
  return length and header_in(envelope, stop + length, opening)
end
local function group_in(envelope, stop) return header_in(envelope, stop, '"rmq-group":"') or '' end
local function priority_in(envelope, stop)
  return string.match(header_in(envelope, stop, '"rmq-priority":"') or '', '^[1-9]$')
end
