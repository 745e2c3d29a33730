-- Takes back what a worker has held for too long, and notes when it first saw what carries no time.
-- KEYS: 1 slot  2 processing  3 claims  4 queue  5 dead  6 workers  7 strays
-- ARGV: 1 seq  2 slot ttl ms  3 worker  4 ms that a claim holds by itself  5 max deliveries or 0  6 dead letter cap
--       7 where in the list to begin
-- Reply: 'reaped <given back> <dead> <seen for the first time> <where to go on, -1 at the end>' or 'superseded'.
-- include: clock
-- include: replay
-- include: recount
-- include: entries
-- include: set_aside
local earlier = replay()
if earlier then return earlier end
local now, timeout, from = clock(), tonumber(ARGV[4]), tonumber(ARGV[7])
local size = redis.call('LLEN', KEYS[2])
local function late(claim)
  local since, til = string.match(claim, '^%S+ (%d+) (%d+)$')
  if tonumber(til) > 0 then return tonumber(til) <= now end
  return since + timeout <= now
end
local seen = redis.call('ZSCORE', KEYS[6], ARGV[3])
redis.call('PERSIST', KEYS[1]) -- a write that a full server does not deny opens the door for the next
if size == 0 then
  redis.call('UNLINK', KEYS[3])
  -- A request can be stuck on its way; one that arrives after a day would leave its message with nobody.
  if seen and now - seen > 86400000 then redis.call('ZREM', KEYS[6], ARGV[3]) end
  return remember('reaped 0 0 0 -1')
end
local quiet = size == redis.call('HLEN', KEYS[3])
local notes = quiet and redis.call('HVALS', KEYS[3]) or {}
for i = 1, #notes do quiet = quiet and not late(notes[i]) end
if quiet then return remember('reaped 0 0 0 -1') end
redis.call('LLEN', KEYS[4])
redis.call('LLEN', KEYS[5])
local how = {add = 1, max_deliveries = tonumber(ARGV[5]), max_dead = tonumber(ARGV[6]),
             entry = table.concat({'expired', now, ARGV[3], ''}, '\t') .. '\n'}
local k = {queue = KEYS[4], dead = KEYS[5]}
local back, dead, first, looked, bytes = 0, 0, 0, 0, 0
while looked < 1000 and bytes < 8388608 do
  -- From the left, the newest first: so the oldest ends up at the claim end of the queue.
  local page = redis.call('LRANGE', KEYS[2], from, from + 31)
  for i = 1, #page do
    local entry, id = page[i], id_of(page[i])
    local claim, gone = redis.call('HGET', KEYS[3], id), false
    if claim then gone = late(claim)
    else
      first = first + redis.call('HSETNX', KEYS[7], id, now)
      gone = redis.call('HGET', KEYS[7], id) + timeout <= now
    end
    if gone then
      redis.call('HDEL', KEYS[3], id)
      redis.call('HDEL', KEYS[7], id)
      redis.call('LREM', KEYS[2], 1, entry)
      if set_aside(k, entry, how) then dead = dead + 1 else back = back + 1 end
    else from = from + 1 end
    bytes = bytes + #entry
  end
  looked = looked + #page
  if #page < 32 then return remember('reaped ' .. back .. ' ' .. dead .. ' ' .. first .. ' -1') end
end
return remember(table.concat({'reaped', back, dead, first, from}, ' '))
