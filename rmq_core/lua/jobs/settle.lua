-- Acks, nacks or releases the jobs of a lease, all or some. The last one ends the lease. Of all, at most 1,000 are given
-- back at a time.
-- KEYS: 1 slot  2 ready  3 delayed  4 later  5 dead  6 leases  7 heads  8 lease  9 done  10 events  11 alarm
-- ARGV: 1 seq  2 slot ttl ms  3 lease id  4 token  5 verb: ack, nack or release  6 delay ms  7 reason  8 max attempts
--       9 dead letter cap  10 done ttl ms, 0 for none  11 events cap  12... indexes, none for all
-- Reply: 'settled <count> <dead> <left> [<a letter per index>]', 'lost' or 'superseded'. s settled, d dead,
--   a settled before, m missing.
-- include: clock
-- include: replay
-- include: recount
-- include: jobs_entry
-- include: jobs_alarm
-- include: jobs_later
-- include: jobs_dead
-- include: jobs_lease
-- include: jobs_back
local earlier = replay()
if earlier then return earlier end
local head = lease_of(KEYS[7], ARGV[3], ARGV[4])
if not head then return refuse('lost') end
local k = {ready = KEYS[2], delayed = KEYS[3], later = KEYS[4], dead = KEYS[5], leases = KEYS[6], heads = KEYS[7],
           lease = KEYS[8], events = KEYS[10], alarm = KEYS[11]}
check_job_types(k)
redis.call('STRLEN', KEYS[9])
local now, verb, delay, all = clock(), ARGV[5], tonumber(ARGV[6]), #ARGV == 11
local how = {add = head.takeovers, entry = '', limit = tonumber(ARGV[8]), max_dead = tonumber(ARGV[9]),
             events = tonumber(ARGV[11])}
if verb == 'nack' then
  how.add, how.entry = head.takeovers + 1, table.concat({'nack', now, head.owner, ARGV[7]}, '\t') .. '\n'
  if delay > 0 then how.due = now + delay end
end
local letters, ids, envelopes, at = {}, {}, {}, {}
local function pick(entry, place)
  ids[#ids + 1], envelopes[#envelopes + 1], at[#at + 1] = entry[1], envelope_of(entry[2]), place
end
if not all then
  for i = 12, #ARGV do
    local id = tonumber(ARGV[i]) + 1 .. '-0'
    local entry = redis.call('XRANGE', KEYS[8], id, id)[1]
    letters[i - 11] = entry and 's' or tonumber(ARGV[i]) < head.count and 'a' or 'm'
    if entry then pick(entry, i - 11) end
  end
elseif verb ~= 'ack' then
  for _, entry in ipairs(redis.call('XRANGE', KEYS[8], '-', '+', 'COUNT', 1000)) do pick(entry) end
end
local dead, settled = 0, all and verb == 'ack' and redis.call('XLEN', KEYS[8]) or #ids
redis.call('PERSIST', KEYS[7]) -- a full server denies no first write of this kind, and so drains
if verb ~= 'ack' and #ids > 0 then
  local verdicts
  verdicts, dead = give_jobs_back(k, how, envelopes)
  for i = 1, #verdicts do
    if verdicts[i] and at[i] then letters[at[i]] = 'd' end
  end
  head.returned = head.returned + #ids
end
if #ids > 0 then redis.call('XDEL', KEYS[8], unpack(ids)) end
local left = all and verb == 'ack' and 0 or redis.call('XLEN', KEYS[8])
if left == 0 then
  end_lease(k, ARGV[3])
  if ARGV[10] ~= '0' and (all and verb == 'ack' or head.returned == 0) then
    redis.call('SET', KEYS[9], math.max(0, head.count - head.returned) .. ' ' .. now .. ' ' .. head.owner, 'PX', ARGV[10])
  end
elseif head.returned > 0 then
  keep_head(KEYS[7], ARGV[3], head)
end
return remember(table.concat({'settled', settled, dead, left, table.concat(letters)}, ' '))
