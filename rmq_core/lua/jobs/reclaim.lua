-- Takes the jobs of an expired lease, or of one whose attempts are used up, back; its holder is fenced off.
-- KEYS: 1 slot  2 ready  3 delayed  4 later  5 dead  6 leases  7 heads  8 lease  9 events  10 alarm  11 fence
-- ARGV: 1 seq  2 slot ttl ms  3 lease id  4 nonce  5 max attempts  6 dead letter cap  7 events cap
--       8 '1' when used up attempts are reason enough  9 token of an earlier chunk, or ''
-- Reply: 'returned <count> <dead> <left> <token>', 'live' (not expired, or gone) or 'superseded'.
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
local head, now, id = lease_head(KEYS[7], ARGV[3]), clock(), ARGV[3]
local deadline = tonumber(redis.call('ZSCORE', KEYS[6], id) or '-inf')
if not head then
  redis.call('ZREM', KEYS[6], id)
  return refuse('live')
end
if ARGV[9] ~= '' and head.token ~= ARGV[9] then return refuse('live') end
if ARGV[9] == '' and ARGV[8] ~= '1' and deadline > now then return refuse('live') end
local k = {ready = KEYS[2], delayed = KEYS[3], later = KEYS[4], dead = KEYS[5], leases = KEYS[6], heads = KEYS[7],
           lease = KEYS[8], events = KEYS[9], alarm = KEYS[10]}
check_job_types(k)
redis.call('PERSIST', KEYS[7])
if ARGV[9] == '' then
  head.token, head.returned = redis.call('INCR', KEYS[11]) .. '.' .. ARGV[4], head.returned + 1
  keep_head(KEYS[7], id, head)
  redis.call('ZADD', KEYS[6], 'XX', math.min(deadline, now), id)
end
local ids, envelopes = {}, {}
for i, entry in ipairs(redis.call('XRANGE', KEYS[8], '-', '+', 'COUNT', 1000)) do
  ids[i], envelopes[i] = entry[1], envelope_of(entry[2])
end
local line = table.concat({'expired', now, head.owner, ''}, '\t') .. '\n'
local how = {add = head.takeovers + 1, entry = line, limit = tonumber(ARGV[5]), max_dead = tonumber(ARGV[6]),
             events = tonumber(ARGV[7])}
local _, dead = give_jobs_back(k, how, envelopes)
if #ids > 0 then redis.call('XDEL', KEYS[8], unpack(ids)) end
local left = redis.call('XLEN', KEYS[8])
if left == 0 then end_lease(k, id) end
return remember(table.concat({'returned', #ids, dead, left, head.token}, ' '))
