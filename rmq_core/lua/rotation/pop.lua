-- Turns the list: what is done is dropped, what is in progress goes round unchanged, what is new or late is stamped and
-- handed out. Looks at each entry at most once.
-- KEYS: 1 slot  2 list  3 done  4 taken  5 waiters  6 wake
-- ARGV: 1 seq  2 slot ttl ms  3 seconds after which an entry is late  4 max ids  5 entries to look at at most, 0 for all
--       6 waiter or ''  7 ms to wait  8 server time in ms at which waiting ends, 0 in the first call  9 bell channel
-- Reply: '<stamp> <entries left to look at> <ms to block> <server time at which waiting ends> <one letter per id: n new,
--   l late> <each id as <length>:<id>>' or 'superseded'.
-- include: clock
-- include: replay
-- include: ring
-- include: stamps
local earlier = replay()
if earlier then return earlier end
local now, wait_end = clock(), tonumber(ARGV[8])
local now_s, timeout = math.floor(now / 1000), tonumber(ARGV[3])
if wait_end == 0 then wait_end = now + tonumber(ARGV[7]) end
local size = redis.call('LLEN', KEYS[2])
local todo = tonumber(ARGV[5])
if todo == 0 or todo > size then todo = size end
local seen = awaited(KEYS[5], KEYS[6])
redis.call('ZCARD', KEYS[3]) -- refuses a wrong type before anything is written
redis.call('HLEN', KEYS[4])
redis.call('PERSIST', KEYS[1]) -- a write that a full server does not deny opens the door for the next
local ids, flags, due, looked = {}, {}, math.huge, 0
local until_looked = math.min(todo, 1000)
while looked < until_looked and #ids < tonumber(ARGV[4]) do
  looked = looked + 1
  local entry = redis.call('LINDEX', KEYS[2], -1)
  local id, stamp = stamp_of(entry)
  if stamp and drop_done(KEYS[3], id) then
    redis.call('RPOP', KEYS[2])
  elseif stamp and not is_late(stamp, now_s, timeout) then
    due = math.min(due, stamp + timeout + 1)
    redis.call('LMOVE', KEYS[2], KEYS[2], 'RIGHT', 'LEFT')
  else
    redis.call('RPOP', KEYS[2])
    redis.call('LPUSH', KEYS[2], id .. '|' .. now_s)
    if stamp then redis.call('HSETNX', KEYS[4], id, 1) else redis.call('HINCRBY', KEYS[4], id, 1) end
    ids[#ids + 1] = #id .. ':' .. id
    flags[#flags + 1] = stamp and 'l' or 'n'
  end
end
local left, block = todo - looked, 0
if #ids == 0 and wait_end > now then -- joins before it has seen all: what is pushed behind its back must ring
  if left == 0 then block = math.max(2, math.min(5000, wait_end - now, due * 1000 - now)) end
  redis.call('ZREMRANGEBYSCORE', KEYS[5], '(0', '(' .. now)
  redis.call('ZADD', KEYS[5], now + block + 2000, ARGV[6])
elseif seen then
  redis.call('ZREM', KEYS[5], ARGV[6])
  local behind = redis.call('LINDEX', KEYS[2], -1)
  if behind and not select(2, stamp_of(behind)) then ring(KEYS[5], KEYS[6], ARGV[9], now, seen) end
end
return remember(table.concat({now_s, left, block, wait_end, table.concat(flags), table.concat(ids)}, ' '))
