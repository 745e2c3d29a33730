-- Turns the list and drops what is new or late; what is in progress stays.
-- KEYS: 1 slot  2 list  3 done  4 taken
-- ARGV: 1 seq  2 slot ttl ms  3 seconds after which an entry is late  4 entries to look at at most, 0 for all
-- Reply: 'removed <count> <entries left to look at>' or 'superseded'.
-- include: clock
-- include: replay
-- include: stamps
local earlier = replay()
if earlier then return earlier end
local now_s, removed = math.floor(clock() / 1000), 0
local size, todo = redis.call('LLEN', KEYS[2]), tonumber(ARGV[4])
if todo == 0 or todo > size then todo = size end
redis.call('ZCARD', KEYS[3]) -- refuses a wrong type before anything is written
redis.call('HLEN', KEYS[4])
redis.call('PERSIST', KEYS[1]) -- a write that a full server does not deny opens the door for the next
for i = 1, math.min(todo, 1000) do
  local id, stamp = stamp_of(redis.call('LINDEX', KEYS[2], -1))
  if stamp and drop_done(KEYS[3], id) then redis.call('RPOP', KEYS[2])
  elseif stamp and not is_late(stamp, now_s, tonumber(ARGV[3])) then redis.call('LMOVE', KEYS[2], KEYS[2], 'RIGHT', 'LEFT')
  else
    redis.call('RPOP', KEYS[2])
    if stamp and redis.call('HINCRBY', KEYS[4], id, -1) <= 0 then redis.call('HDEL', KEYS[4], id) end
    removed = removed + 1
  end
end
return remember('removed ' .. removed .. ' ' .. math.max(0, todo - 1000))
