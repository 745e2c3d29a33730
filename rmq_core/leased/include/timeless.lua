-- Returns the part of an envelope that the client wrote, without the header by which the message expires.
local function timeless(body)
  if not string.find(body, '"rmq-expires":"', 1, true) then return body end
  local id, size, first = string.match(body, '^(%S+ %a)(%d+) ()')
  if not id then return body end
  local headers = string.gsub(string.sub(body, first, first + size - 1), '"rmq%-expires":"[^"]*",?', '', 1)
  headers = string.gsub(headers, ',}$', '}')
  if headers == '{}' then headers = '' end
  return id .. #headers .. ' ' .. headers .. string.sub(body, first + size)
end
