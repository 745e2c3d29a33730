-- Takes back messages that a worker has held for too long, and records when it first saw messages without a claim.
-- KEYS: slot  processing  claims  queue  dead  workers  strays
-- ARGV: seq  slot_ttl_ms  worker  timeout_ms:number, for which a claim holds by itself  max_deliveries:number, or 0
--       max_dead:number  offset:number, where in the list to begin
-- Reply: 'reaped <requeued> <dead> <seen for the first time> <offset of the next call, -1 at the end>' and trimmed dead letters, or 'superseded'.
-- include: clock
-- include: replay
-- include: entries
-- include: set_aside
local earlier = replay()
if earlier then return earlier end
local now, size = clock(), redis.call('LLEN', processing)
local function late(claim)
  local since, til = string.match(claim, '^%S+ (%d+) (%d+)$')
  if tonumber(til) > 0 then return tonumber(til) <= now end
  return since + timeout_ms <= now
end
local seen = redis.call('ZSCORE', workers, worker)
redis.call('PERSIST', slot) -- Redis allows this write at maxmemory, and then every later write of the script
if size == 0 then
  redis.call('UNLINK', claims)
  -- A request can be delayed on its way; no reaper would find the message of one that arrives after more than a day.
  if seen and now - seen > 86400000 then redis.call('ZREM', workers, worker) end
  return remember('reaped 0 0 0 -1')
end
local quiet = size == redis.call('HLEN', claims)
local notes = quiet and redis.call('HVALS', claims) or {}
for i = 1, #notes do quiet = quiet and not late(notes[i]) end
if quiet then return remember('reaped 0 0 0 -1') end
redis.call('LLEN', queue)
redis.call('LLEN', dead)
local how = {add = 1, max_deliveries = max_deliveries, max_dead = max_dead,
             entry = table.concat({'expired', now, worker, ''}, '\t') .. '\n'}
local k = {queue = queue, dead = dead}
local back, died, first, scanned, bytes = 0, 0, 0, 0, 0
while scanned < 1000 and bytes < 8388608 do
  -- From the left, the newest first: so the oldest ends up at the claim end of the queue.
  local page = redis.call('LRANGE', processing, offset, offset + 31)
  for i = 1, #page do
    local entry, id = page[i], id_of(page[i])
    local claim, gone = redis.call('HGET', claims, id), false
    if claim then gone = late(claim)
    else
      first = first + redis.call('HSETNX', strays, id, now)
      gone = redis.call('HGET', strays, id) + timeout_ms <= now
    end
    if gone then
      redis.call('HDEL', claims, id)
      redis.call('HDEL', strays, id)
      redis.call('LREM', processing, 1, entry)
      if set_aside(k, entry, how) then died = died + 1 else back = back + 1 end
    else offset = offset + 1 end
    bytes = bytes + #entry
  end
  scanned = scanned + #page
  if #page < 32 then return remember(reported('reaped ' .. back .. ' ' .. died .. ' ' .. first .. ' -1')) end
end
return remember(reported(table.concat({'reaped', back, died, first, offset}, ' ')))
