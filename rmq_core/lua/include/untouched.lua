-- What it means for the messages of a lease that they are released: they return to where they came from, and only the
-- one message of a lease keeps the deliveries of takeovers.
local function untouched(head, lease)
  local first = redis.call('LINDEX', lease, 1)
  local _, group = mark_of(first or '')
  local alone = head.state ~= 'l' and head.state ~= 'r' and redis.call('LLEN', lease) == 2
  return {add = alone and head.takeovers or 0, group = group}
end
