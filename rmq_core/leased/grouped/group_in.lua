-- include: header_in
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
-- Returns the groups of messages that have no other header and no history, as nearly all in a large batch; nil if one of
-- them has. So each message is looked at once, and not once for each header.
local looked_at, groups_found = nil, nil
local function only_grouped(envelopes)
  if looked_at == envelopes then return groups_found end
  looked_at, groups_found = envelopes, nil
  local found, match = {}, string.match
  for i = 1, #envelopes do
    local name = match(envelopes[i], '^%d+ %d+ 0 %S+ %a[1-9]%d* {"rmq%-group":"([^"]*)"}') or
                 match(envelopes[i], '^%d+ %d+ 0 %S+ %a0 ') and ''
    if not name then return nil end
    found[i] = name
  end
  groups_found = found
  return found
end
