-- Returns the argument `how` of place for single messages of a lease that are known to have failed: each is blamed for
-- this delivery, but not for earlier ones that it shared with others.
local function alone_of(head, size)
  return {add = head.takeovers + 1, together = 1, shared = size > 1 and head.takeovers or 0,
          group = 2 * string.match(head.token, '^%d+')}
end
