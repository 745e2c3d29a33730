-- Whether a lease must not be taken over once more: its only message has no delivery left, or, where there are several,
-- so many tries under one id have failed that it is time to find out which of the messages is to blame.
local function used_up(first, takeovers, count, max)
  local before = count > 1 and 1 or blamed(first)
  return max > 0 and before + takeovers + 1 >= max
end
