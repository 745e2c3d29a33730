-- Moves the oldest messages to a worker's processing list and records the time under a token. Messages that a BLMOVE
-- moved to that list without a record come first. That BLMOVE was sent in the write of this call, or its client has
-- ended.
-- KEYS: slot  queue  processing  claims  workers  strays
-- ARGV: seq  slot_ttl_ms  worker  token  lease_ms:number, 0 for as long as the reaper allows  max_messages:number
--       mode, 'new' for a new token, 'again' for one that may hold messages, 'rest' to take nothing from the queue
--       max_deliveries:number, or 0  wait_ms:number
--       wait_end:number, server time in ms at which waiting ends, 0 in the first call of a claim
-- Reply: {head, entries, oldest first}; head is 'claimed <now ms>', 'empty <ms to block> <server time at which waiting
--   ends>' or 'superseded'.
-- include: clock
-- include: replay
-- include: envelope
-- include: entries
-- Returns entries of the processing list for which wanted(claim) is true, oldest first; the search starts at the
-- newest.
local function find(wanted, most)
  local found, from = {}, 0
  while #found < most and from < 4000 do
    local page = redis.call('LRANGE', processing, from, from + 31)
    for i = 1, #page do
      if #found < most and wanted(redis.call('HGET', claims, id_of(page[i]))) then table.insert(found, 1, page[i]) end
    end
    if #page < 32 then break end
    from = from + 32
  end
  return found
end
local function mine(claim) return holder(claim) == token end
local earlier = replay()
if earlier then return {earlier, string.sub(earlier, 1, 7) == 'claimed' and find(mine, 1000) or {}} end
local now, limit = clock(), math.min(max_messages, 1000)
if wait_end == 0 then wait_end = now + wait_ms end
local unclaimed = redis.call('LLEN', processing) - redis.call('HLEN', claims)
redis.call('LLEN', queue) -- refuses a wrong type before anything is written
redis.call('ZCARD', workers)
redis.call('HLEN', strays)
redis.call('PERSIST', slot) -- Redis allows this write at maxmemory, and then every later write of the script
redis.call('ZADD', workers, now, worker)
if mode ~= 'new' then
  local before = find(mine, 1000)
  if #before > 0 then return {remember('claimed ' .. now), before} end
end
local taken, bytes = {}, 0
if unclaimed > 0 then
  taken = find(function(claim) return not claim end, limit)
  for i = 1, #taken do redis.call('HDEL', strays, id_of(taken[i])) end
end
if mode ~= 'rest' and #taken == 0 then
  -- A message that may have killed its worker must not affect the messages after it.
  local before = limit > 1 and deliveries(redis.call('LINDEX', queue, -1) or '') or 0
  if before > 0 then
    local last = max_deliveries > 0 and before + 1 >= max_deliveries
    limit = last and 1 or math.max(1, math.floor(limit / 10 ^ before))
  end
  while #taken < limit and bytes < 8388608 do
    local entry = redis.call('LMOVE', queue, processing, 'RIGHT', 'LEFT')
    if not entry then break end
    taken[#taken + 1], bytes = entry, bytes + #entry
  end
end
if #taken == 0 then return {remember('empty ' .. math.max(0, math.min(5000, wait_end - now)) .. ' ' .. wait_end), taken} end
local note = token .. ' ' .. now .. ' ' .. (lease_ms > 0 and now + lease_ms or 0)
for i = 1, #taken do redis.call('HSET', claims, id_of(taken[i]), note) end
return {remember('claimed ' .. now), taken}
