-- An envelope begins '<deliveries so far> <enqueued ms> <length of history> <history>'.
local function deliveries(envelope)
  return tonumber(string.match(envelope, '^(%d+) ')) or 0
end
