-- Whether a lease must not be taken over once more: its only message has no delivery left, or, where there are several,
-- so many tries under one id have failed that it is time to find out which of the messages is to blame.
-- include: envelope
-- include: mark
local function used_up(first, takeovers, count, max)
  if max == 0 then return false end
  if count > 1 then return takeovers + 2 >= max end
  local _, _, _, shared = mark_of(first)
  return deliveries(first) - shared + takeovers + 1 >= max
end
