-- Adds an envelope to delayed. Another envelope with the same id, payload and millisecond would be the same member of
-- the set. Therefore the later one counts as published later, by the smallest free number of milliseconds. Doubled and
-- then halved steps find that number quickly even among thousands.
-- include: envelope
local function set_delayed(delayed, due, envelope)
  if redis.call('ZADD', delayed, 'NX', due, envelope) == 1 then return end
  if not enqueued_later(envelope, 0) then return end -- not an envelope
  local function later(ms) return enqueued_later(envelope, ms) end
  local taken, free = 0, 1
  while redis.call('ZSCORE', delayed, later(free)) do taken, free = free, 2 * free end
  while free - taken > 1 do
    local middle = math.floor((taken + free) / 2)
    if redis.call('ZSCORE', delayed, later(middle)) then taken = middle else free = middle end
  end
  redis.call('ZADD', delayed, due, later(free))
end
