-- guard() pauses the queue if so many jobs died in a short time as the argument `breaker` says (see breaker.lua). It is
-- called after jobs have become dead letters; the script has the keys `ready`, `paused` and `dead`, and `group`.
-- include: breaker
-- include: stop
local function guard(now)
  if breaker ~= '' and trips(dead, now) and stop(ready, paused, group) then tripped = ' ' .. breaker end
end
