-- An envelope begins '<deliveries so far> <enqueued ms> <length of history> <history>'.
local function deliveries(envelope)
  return tonumber(string.match(envelope, '^(%d+) ')) or 0
end
-- Whether a lease must not be taken over once more. One of several messages goes back one delivery early: the last
-- delivery is each message's own (see open_lease), or one that kills its workers would take the others along.
local function used_up(first, takeovers, open, max)
  local alone = open > 1 and 1 or 0
  return max > 0 and deliveries(first) + takeovers + 1 + alone >= max
end
