-- The isolation mark of a message (docs/architecture.md) ends the newest line of its history and so moves with it:
-- '\31<failures together> <group, 0 for none> <messages of the group a claim may take> <deliveries not blamed on it>'.
-- A later version may add more behind it, up to the line's end.
-- include: envelope
local function mark_in(history)
  return history ~= '' and string.match(history, '\31(%d+ %d+ %d+ %d+)[^\n]*\n$') or false
end
local function mark_of(envelope)
  local stop = history_end(envelope)
  local text = stop and mark_in(string.sub(envelope, 1, stop))
  if not text then return 0, 0, 0, 0 end
  local failures, group, most, shared = string.match(text, '(%d+) (%d+) (%d+) (%d+)')
  return tonumber(failures), tonumber(group), tonumber(most), tonumber(shared)
end
