-- The format of a message, for scripts; for Python it is in rmq_core/envelope/codec.py. An envelope is
--   <deliveries> <enqueued ms> <length of history> <history><id> <kind><length of headers> <headers><payload>
-- Scripts write the part before the id, a client writes the rest.
-- Returns the deliveries, the part that no script changes, the history, and the part that the client wrote. The
-- deliveries are nil for text that is no envelope.
local function parts_of(envelope)
  local count, kept, length, at = string.match(envelope, '^(%d+) (%d+) (%d+) ()')
  if not count or length == '0' then return count, kept, '', string.sub(envelope, at or 1) end
  return count, kept, string.sub(envelope, at, at + length - 1), string.sub(envelope, at + length)
end
-- Returns an envelope with one more line in its history. Keeps the newest KiB of the history and always the newest
-- line.
local function written(count, kept, history, line, body)
  history = history .. line
  if line == '' then -- nothing is added, so nothing is cut: a single line may be longer than 1 KiB
  elseif #line > 1024 then history = line
  elseif #history > 1024 then history = string.sub(history, string.find(history, '\n', #history - 1024, true) + 1) end
  return count .. ' ' .. kept .. ' ' .. #history .. ' ' .. history .. body
end
-- Returns the new delivery count, and the envelope with how.add more deliveries and the line how.entry in its history.
local function recount(envelope, how)
  local count, kept, history, body = parts_of(envelope)
  count = count + how.add
  return count, written(count, kept, history, how.entry, body)
end
local function deliveries(envelope)
  return tonumber(string.match(envelope, '^(%d+) ')) or 0
end
local function enqueued(envelope)
  return string.match(envelope, '^%d+ (%d+) ')
end
-- Returns an envelope that counts as enqueued `ms` later; nil for text that is no envelope.
local function enqueued_later(envelope, ms)
  local count, published, rest = string.match(envelope, '^(%d+ )(%d+)(.*)$')
  return count and count .. string.format('%.0f', published + ms) .. rest
end
-- Returns the position at which the history ends; nil for text that is no envelope.
local function history_end(envelope)
  local _, stop, length = string.find(envelope, '^%d+ %d+ (%d+) ')
  return stop and stop + tonumber(length)
end
local function message_id(envelope)
  local stop = history_end(envelope)
  return stop and string.match(envelope, '^(%S+) ', stop + 1)
end
