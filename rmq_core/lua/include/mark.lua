-- What a message has to do with isolation (docs/architecture.md) ends the newest line of its history, so that it travels
-- along: '\31<failures together> <group, 0 for none> <messages of the group a claim may take> <deliveries it is not blamed for>'.
local function mark_of(envelope)
  local length, at = string.match(envelope, '^%d+ %d+ (%d+) ()')
  if not length or length == '0' then return 0, 0, 0, 0 end
  local text = string.match(string.sub(envelope, at, at + length - 1), '\31([%d ]+)\n$')
  if not text then return 0, 0, 0, 0 end
  local failures, group, most, shared = string.match(text, '(%d+) (%d+) (%d+) (%d+)')
  return tonumber(failures), tonumber(group), tonumber(most), tonumber(shared)
end
