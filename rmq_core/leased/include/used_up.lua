-- Returns whether a lease must not be taken over again: its only message has no delivery left, or it has several
-- messages (or parts, which the home of a lease does not know) and so many attempts under one id have failed that the message to blame has to be found.
-- include: envelope
-- include: mark
local function used_up(first, takeovers, count, max)
  if max == 0 then return false end
  if count ~= 1 then return takeovers + 2 >= max end
  local _, _, _, shared = mark_of(first)
  return deliveries(first) - shared + takeovers + 1 >= max
end
