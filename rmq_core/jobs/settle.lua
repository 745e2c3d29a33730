-- Acks, nacks or releases the jobs of a lease, all or some. Settling the last one ends the lease. If all are
-- nacked or released, one call moves at most 1,000.
-- KEYS: slot  ready  delayed  later  dead  leases  heads  lease  done  events  alarm  paused
-- ARGV: seq  slot_ttl_ms  lease_id  token  verb, ack, nack or release  delay_ms:number  reason  max_attempts:number
--       max_dead:number  breaker, of breaker.lua  group  done_ttl_ms, 0 for none  events_cap:number  indexes..., none for all
-- Reply: 'settled <count> <dead> <left> [<a letter per index>]' and what reported() adds, 'lost' or 'superseded'. s settled,
--   d dead, a settled before, m missing.
-- include: clock
-- include: replay
-- include: jobs_entry
-- include: lease
-- include: back
local earlier = replay()
if earlier then return earlier end
local head = lease_of(heads, lease_id, token)
if not head then return refuse('lost') end
local k = {ready = ready, delayed = delayed, later = later, dead = dead, leases = leases, heads = heads, lease = lease,
           events = events, alarm = alarm}
check_job_types(k)
redis.call('STRLEN', done)
local now, all = clock(), #indexes == 0
local how = {add = head.takeovers, entry = '', limit = max_attempts, max_dead = max_dead, events = events_cap, now = now}
if verb == 'nack' then
  how.add, how.entry = head.takeovers + 1, table.concat({'nack', now, head.owner, reason}, '\t') .. '\n'
  if delay_ms > 0 then how.due = now + delay_ms end
end
local letters, ids, envelopes, at = {}, {}, {}, {}
local function pick(entry, place)
  ids[#ids + 1], envelopes[#envelopes + 1], at[#at + 1] = entry[1], envelope_of(entry[2]), place
end
if not all then
  for i = 1, #indexes do
    local index = tonumber(indexes[i])
    local id = index + 1 .. '-0'
    local entry = redis.call('XRANGE', lease, id, id)[1]
    letters[i] = entry and 's' or index < head.count and 'a' or 'm'
    if entry then pick(entry, i) end
  end
elseif verb ~= 'ack' then
  for _, entry in ipairs(redis.call('XRANGE', lease, '-', '+', 'COUNT', 1000)) do pick(entry) end
end
local buried, settled = 0, all and verb == 'ack' and redis.call('XLEN', lease) or #ids
redis.call('PERSIST', heads) -- Redis allows this write at maxmemory, and then every later write of the script
if verb ~= 'ack' and #ids > 0 then
  local verdicts
  verdicts, buried = give_jobs_back(k, how, envelopes)
  for i = 1, #verdicts do
    if verdicts[i] and at[i] then letters[at[i]] = 'd' end
  end
  head.returned = head.returned + #ids
end
if #ids > 0 then redis.call('XDEL', lease, unpack(ids)) end
local left = all and verb == 'ack' and 0 or redis.call('XLEN', lease)
if left == 0 then
  end_lease(k, lease_id)
  if done_ttl_ms ~= '0' and (all and verb == 'ack' or head.returned == 0) then
    redis.call('SET', done, math.max(0, head.count - head.returned) .. ' ' .. now .. ' ' .. head.owner, 'PX', done_ttl_ms)
  end
elseif head.returned > 0 then
  keep_head(heads, lease_id, head)
end
return remember(reported(table.concat({'settled', settled, buried, left, table.concat(letters)}, ' ')))
