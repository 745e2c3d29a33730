-- An envelope with how.add deliveries more and the line how.entry in its history, of which the newest KiB is kept.
local function recount(envelope, how)
  local _, stop, count, enqueued, length = string.find(envelope, '^(%d+) (%d+) (%d+) ')
  count, length = tonumber(count) + how.add, tonumber(length)
  local history = string.sub(envelope, stop + 1, stop + length) .. how.entry
  if #history > 1024 then history = string.sub(history, string.find(history, '\n', #history - 1024, true) + 1) end
  local body = string.sub(envelope, stop + length + 1)
  return count, table.concat({count, ' ', enqueued, ' ', #history, ' ', history, body})
end
local function message_id(envelope)
  local _, stop, length = string.find(envelope, '^%d+ %d+ (%d+) ')
  return string.match(envelope, '^(%S+) ', stop + tonumber(length) + 1)
end
