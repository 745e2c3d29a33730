-- Removes messages of a list or a sorted set and lets their deduplication keys be used again.
-- KEYS: 1 slot  2 list or sorted set  3... deduplication keys, one per message or none
-- ARGV: 1 seq  2 slot ttl ms  3 zset; or of a list, which of equal ones: newest or oldest  4 deduplication window ms  5... the messages
-- Reply: 'removed <count>' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
local now, window, removed, free = clock(), tonumber(ARGV[4]), 0, {}
for i = 5, #ARGV do
  local gone
  if ARGV[3] == 'zset' then gone = redis.call('ZREM', KEYS[2], ARGV[i])
  else gone = redis.call('LREM', KEYS[2], ARGV[3] == 'newest' and -1 or 1, ARGV[i]) end
  removed = removed + gone
  local published = string.match(ARGV[i], '^%d+ (%d+) ')
  -- Of a message older than the window the key has expired: if it is there, another message has it.
  if gone > 0 and KEYS[i - 2] and published and now - published < window then free[#free + 1] = KEYS[i - 2] end
end
if #free > 0 then redis.call('UNLINK', unpack(free)) end
return refuse('removed ' .. removed)
