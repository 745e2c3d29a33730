-- Returns the group that is named in an envelope whose part of the client begins at `stop`; '' if none is. The text may be
-- in the payload too; in the value of another header, its quotes are escaped.
local function group_in(envelope, stop)
  local at = string.find(envelope, '"rmq-group":"', stop, true)
  if not at then return '' end
  local size, first = string.match(envelope, '^%S+ %a(%d+) ()', stop)
  return size and at < first + size and string.match(envelope, '^([^"]*)"', at + 13) or ''
end
