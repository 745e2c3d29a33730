-- Rotates the list: drops entries that are done, passes over entries in progress, stamps new or late entries and hands
-- them out. Reads each entry at most once.
-- KEYS: slot  list  done  taken  waiters  wake
-- ARGV: seq  slot_ttl_ms  timeout_s:number, after which an entry is late  max_messages:number, how many ids
--       most:number, entries to read, 0 for all  waiter, or ''  wait_ms:number
--       wait_end:number, server time in ms at which waiting ends, 0 in the first call  channel, of notifications
-- Reply: '<stamp> <entries left to read> <ms to block> <server time at which waiting ends>
--   <one letter per id: n new, l late> <each id as <length>:<id>>' or 'superseded'.
-- include: clock
-- include: replay
-- include: notify
-- include: stamps
local earlier = replay()
if earlier then return earlier end
local now = clock()
local now_s = math.floor(now / 1000)
if wait_end == 0 then wait_end = now + wait_ms end
local size, todo = redis.call('LLEN', list), most
if todo == 0 or todo > size then todo = size end
local seen = awaited(waiters, wake)
redis.call('ZCARD', done) -- refuses a wrong type before anything is written
redis.call('HLEN', taken)
redis.call('PERSIST', slot) -- Redis allows this write at maxmemory, and then every later write of the script
local ids, flags, due, scanned = {}, {}, math.huge, 0
local bound = math.min(todo, 1000)
while scanned < bound and #ids < max_messages do
  scanned = scanned + 1
  local entry = redis.call('LINDEX', list, -1)
  local id, stamp = stamp_of(entry)
  if stamp and drop_done(done, id) then
    redis.call('RPOP', list)
  elseif stamp and not is_late(stamp, now_s, timeout_s) then
    due = math.min(due, stamp + timeout_s + 1)
    redis.call('LMOVE', list, list, 'RIGHT', 'LEFT')
  else
    redis.call('RPOP', list)
    redis.call('LPUSH', list, id .. '|' .. now_s)
    if stamp then redis.call('HSETNX', taken, id, 1) else redis.call('HINCRBY', taken, id, 1) end
    ids[#ids + 1] = #id .. ':' .. id
    flags[#flags + 1] = stamp and 'l' or 'n'
  end
end
local left, block = todo - scanned, 0
if #ids == 0 and wait_end > now then -- registers before it has read all, so that any later push wakes it
  if left == 0 then block = math.max(2, math.min(5000, wait_end - now, due * 1000 - now)) end
  redis.call('ZREMRANGEBYSCORE', waiters, '(0', '(' .. now)
  redis.call('ZADD', waiters, now + block + 2000, waiter)
elseif seen then
  redis.call('ZREM', waiters, waiter)
  local behind = redis.call('LINDEX', list, -1)
  if behind and not select(2, stamp_of(behind)) then notify(waiters, wake, channel, now, seen) end
end
return remember(table.concat({now_s, left, block, wait_end, table.concat(flags), table.concat(ids)}, ' '))
