-- trips() returns whether the queue has to pause itself, because its newest dead letters died within a span of time. The
-- argument `breaker` is '<number of letters> <ms>', or empty; the caller tests that first. The last line of a letter's
-- history has how and when it died, so nothing else is stored. A letter without one does not count. Messages that expired
-- while they waited ('unclaimed') do not either: no consumer failed, and in a paused queue more would expire. Nor do those
-- that an operator moved there ('moved').
-- include: envelope
-- include: trimmed
local function death_of(letter)
  local _, _, history = parts_of(letter or '')
  return string.match('\n' .. history, '.*\n(%a+)\t(%d+)\t')
end
local function trips(dead, now)
  local number, span = string.match(breaker, '^(%d+) (%d+)$')
  number, span = tonumber(number), tonumber(span)
  local kind, died = death_of(redis.call('LINDEX', dead, number - 1))
  if not died or now - died > span then return false end -- the common case, which reads one letter
  local failed = 0
  for at = 0, number + 999 do
    kind, died = death_of(redis.call('LINDEX', dead, at))
    if died and now - died > span then return false end
    if died and kind ~= 'unclaimed' and kind ~= 'moved' then failed = failed + 1 end
    if failed == number then return true end
  end
  return false
end
