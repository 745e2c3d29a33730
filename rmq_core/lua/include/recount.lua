-- An envelope is '<deliveries> <enqueued ms> <length of history> <history><body>'.
local function parts_of(envelope)
  local _, stop, count, enqueued, length = string.find(envelope, '^(%d+) (%d+) (%d+) ')
  if length == '0' then return count, enqueued, '', string.sub(envelope, stop + 1) end
  return count, enqueued, string.sub(envelope, stop + 1, stop + length), string.sub(envelope, stop + length + 1)
end
-- One with a line more in its history, of which the newest KiB is kept, and the newest line always.
local function rewritten(count, enqueued, history, line, body)
  history = history .. line
  if line == '' then -- nothing is added, hence nothing goes: one line alone may be longer than that
  elseif #line > 1024 then history = line
  elseif #history > 1024 then history = string.sub(history, string.find(history, '\n', #history - 1024, true) + 1) end
  return count .. ' ' .. enqueued .. ' ' .. #history .. ' ' .. history .. body
end
-- One with how.add deliveries more and the line how.entry in its history.
local function recount(envelope, how)
  local count, enqueued, history, body = parts_of(envelope)
  count = count + how.add
  return count, rewritten(count, enqueued, history, how.entry, body)
end
local function message_id(envelope)
  local _, stop, length = string.find(envelope, '^%d+ %d+ (%d+) ')
  return string.match(envelope, '^(%S+) ', stop + tonumber(length) + 1)
end
