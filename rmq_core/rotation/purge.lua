-- Rotates the list and drops entries that are new or late; entries in progress stay.
-- KEYS: slot  list  done  taken
-- ARGV: seq  slot_ttl_ms  timeout_s:number, after which an entry is late  most:number, entries to read, 0 for all
-- Reply: 'removed <count> <entries left to read>' or 'superseded'.
-- include: clock
-- include: replay
-- include: stamps
local earlier = replay()
if earlier then return earlier end
local now_s, removed = math.floor(clock() / 1000), 0
local size, todo = redis.call('LLEN', list), most
if todo == 0 or todo > size then todo = size end
redis.call('ZCARD', done) -- refuses a wrong type before anything is written
redis.call('HLEN', taken)
redis.call('PERSIST', slot) -- Redis allows this write at maxmemory, and then every later write of the script
for i = 1, math.min(todo, 1000) do
  local id, stamp = stamp_of(redis.call('LINDEX', list, -1))
  if stamp and drop_done(done, id) then redis.call('RPOP', list)
  elseif stamp and not is_late(stamp, now_s, timeout_s) then redis.call('LMOVE', list, list, 'RIGHT', 'LEFT')
  else
    redis.call('RPOP', list)
    if stamp and redis.call('HINCRBY', taken, id, -1) <= 0 then redis.call('HDEL', taken, id) end
    removed = removed + 1
  end
end
return remember('removed ' .. removed .. ' ' .. math.max(0, todo - 1000))
