-- Takes ready jobs under a lease, or takes an existing lease over. A resend gets the lease of its nonce.
-- KEYS: 1 slot  2 ready  3 delayed  4 later  5 leases  6 heads  7 lease  8 fence  9 done  10 events
-- ARGV: 1 seq  2 slot ttl ms  3 group  4 '1' with XREADGROUP CLAIM and XACKDEL  5 lease id  6 nonce  7 lease ms
--       8 how many at most  9 owner  10 max attempts  11 lease of workers, ms  12 '1' to return the envelopes  13 events cap
-- Reply: {'claimed <token> <deadline> <count> <more to come: 1 or 0>', late leases, envelopes},
--   {'taken <token> <deadline> <count> <takeovers> <owner>', late leases, {}}, {'settled <count>', ...}, {'exhausted', ...},
--   {'empty <now ms> <next due ms or 0> <last entry of the stream>', late leases, {}} or {'superseded', ...}.
-- include: clock
-- include: replay
-- include: recount
-- include: jobs_entry
-- include: jobs_alarm
-- include: jobs_later
-- include: jobs_dead
-- include: jobs_lease
-- include: jobs_take
if replay() == 'superseded' then return {'superseded', {}, {}} end
local now, id, nonce = clock(), ARGV[5], ARGV[6]
local k = {ready = KEYS[2], lease = KEYS[7]}
local o = {group = ARGV[3], native = ARGV[4] == '1', stale = ARGV[11], keep = ARGV[12] == '1'}
local finished = redis.call('GET', KEYS[9])
if finished then return {'settled ' .. finished, {}, {}} end
local head, deadline = lease_head(KEYS[6], id), now + tonumber(ARGV[7])
local function token() return redis.call('INCR', KEYS[8]) .. '.' .. nonce end
if head then
  if string.sub(head.token, -#nonce) ~= nonce then
    local first = redis.call('XRANGE', KEYS[7], '-', '+', 'COUNT', 1)[1]
    local envelope = first and envelope_of(first[2])
    if envelope then
      local tried = tonumber(string.match(envelope, '^(%d+)')) + head.takeovers + 1
      if tried >= limit_of(envelope, tonumber(ARGV[10])) then return {'exhausted', {}, {}} end
    end
    redis.call('PERSIST', KEYS[6])
    head.takeovers, head.token = head.takeovers + 1, token()
    if ARGV[9] ~= '' then head.owner = ARGV[9] end
    keep_head(KEYS[6], id, head)
  end
  redis.call('ZADD', KEYS[5], deadline, id)
  remember('taken')
  if head.takeovers == 0 then
    local more = head.count < tonumber(ARGV[8]) and redis.call('XLEN', KEYS[2]) > 0
    return {table.concat({'claimed', head.token, deadline, head.count, more and 1 or 0}, ' '), {}, {}}
  end
  return {table.concat({'taken', head.token, deadline, head.count, head.takeovers, head.owner}, ' '), {}, {}}
end
redis.call('PERSIST', KEYS[6]) -- a full server denies no first write of this kind, and so drains
tell(KEYS[10], tonumber(ARGV[13]), 'waiting', promote_jobs(KEYS[3], KEYS[4], KEYS[2], now))
local late = redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', now, 'LIMIT', 0, 16)
local wanted = tonumber(ARGV[8])
local taken, kept = take_jobs(k, o, 0, math.min(wanted, 4000))
if taken == 0 then
  local due, last = math.huge, '0-0'
  for _, key in ipairs({KEYS[3], KEYS[5]}) do
    due = math.min(due, tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) or math.huge)
  end
  local info = redis.call('XINFO', 'STREAM', KEYS[2])
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then last = info[i + 1] end
  end
  return {'empty ' .. now .. ' ' .. (due < math.huge and string.format('%.0f', due) or '0') .. ' ' .. last, late, {}}
end
head = {token = token(), takeovers = 0, count = taken, returned = 0, claimed = now, owner = ARGV[9]}
keep_head(KEYS[6], id, head)
redis.call('ZADD', KEYS[5], deadline, id)
remember('claimed')
local more = taken < wanted and redis.call('XLEN', KEYS[2]) > 0
return {table.concat({'claimed', head.token, deadline, taken, more and 1 or 0}, ' '), late, kept}
