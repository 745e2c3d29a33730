-- An entry of a rotation queue is '<id>' until it is popped and '<id>|<seconds>' from then on. An id that itself ends
-- like a stamp is stored as '<id>|0' until it is popped. Any other text after a bar belongs to the id.
local function stamp_of(entry)
  local id, stamp = string.match(entry, '^(.+)|(%d+)$')
  if stamp == '0' then return id, nil end
  if stamp and #stamp == 10 then return id, tonumber(stamp) end
  return entry, nil
end
-- Returns whether a stamp is late. A stamp far in the future is late too: it was written before the clock was set back,
-- and it must not hold its id for ever.
local function is_late(stamp, now_s, timeout_s)
  return math.abs(now_s - stamp) > timeout_s
end
-- The done ids are a sorted set: the score is how many entries of an id are done and still in the list. Subtracts one
-- from the score of an id and returns true; returns false if the id is not in the set.
local function drop_done(done, id)
  local left = redis.call('ZSCORE', done, id)
  if not left then return false end
  if tonumber(left) > 1 then redis.call('ZINCRBY', done, -1, id) else redis.call('ZREM', done, id) end
  return true
end
