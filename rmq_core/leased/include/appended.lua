-- For a script whose call appended messages to a list: one transaction runs RPUSH and then the script, which accepts the
-- messages or takes them back. Until then, no other client sees them.
local function taken_back(list, count, reply)
  redis.call('LTRIM', list, 0, -count - 1)
  return reply
end
-- Returns whether the time that the publisher wrote into the messages is no time of the last half second.
local function is_stale(stamp_ms, now)
  return now - stamp_ms < 0 or now - stamp_ms >= 500
end
