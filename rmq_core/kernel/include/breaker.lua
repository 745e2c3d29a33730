-- trips() returns whether the queue has to pause itself, because its newest dead letters died within a span of time. The
-- argument `breaker` is '<number of letters> <ms>', or empty; the caller tests that first. The last line of a letter's
-- history has the time at which it died, so nothing else is stored. A letter without one trips nothing.
-- include: envelope
-- include: trimmed
local function trips(dead, now)
  local number, span = string.match(breaker, '^(%d+) (%d+)$')
  local _, _, history = parts_of(redis.call('LINDEX', dead, number - 1) or '')
  local died = string.match('\n' .. history, '.*\n%a+\t(%d+)\t')
  return died ~= nil and now - died <= tonumber(span)
end
