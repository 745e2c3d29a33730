-- Adds an envelope to delayed. One of the same id, payload and millisecond would be the same member of the set: the
-- later one counts as published a millisecond later.
local function set_delayed(delayed, due, envelope)
  while redis.call('ZADD', delayed, 'NX', due, envelope) == 0 do
    local count, published, rest = string.match(envelope, '^(%d+ )(%d+)(.*)$')
    if not count then return end -- nothing that was published here
    envelope = count .. string.format('%.0f', published + 1) .. rest
  end
end
