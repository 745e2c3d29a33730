-- Takes ready jobs under a lease, or takes an existing lease over. A resend gets the lease of its nonce.
-- KEYS: slot  ready  delayed  later  leases  heads  lease  fence  done  events  paused
-- ARGV: seq  slot_ttl_ms  group  native, '1' with XREADGROUP CLAIM and XACKDEL  lease_id  nonce  lease_ms:number
--       max_messages:number  owner, or ''  max_attempts:number  stale_ms, a worker's lease: how long it may be silent
--       keep, '1' to return the envelopes  events_cap:number
-- Reply: {'claimed <token> <deadline> <count> <more to come: 1 or 0>', late leases, envelopes},
--   {'taken <token> <deadline> <count> <takeovers> <owner>', late leases, {}}, {'settled <count>', ...},
--   {'exhausted', ...}, {'empty <now ms> <next due ms or 0> <last entry of the stream>', late leases, {}} or
--   {'superseded', ...}.
-- include: clock
-- include: replay
-- include: envelope
-- include: jobs_entry
-- include: later
-- include: dead
-- include: lease
-- include: take
if replay() == 'superseded' then return {'superseded', {}, {}} end
local finished = redis.call('GET', done)
if finished then return {'settled ' .. finished, {}, {}} end
local now, head = clock(), lease_head(heads, lease_id)
local deadline = now + lease_ms
local function next_token() return redis.call('INCR', fence) .. '.' .. nonce end
if head then
  if string.sub(head.token, -#nonce) ~= nonce then
    local first = redis.call('XRANGE', lease, '-', '+', 'COUNT', 1)[1]
    local envelope = first and envelope_of(first[2])
    if envelope then
      local tried = deliveries(envelope) + head.takeovers + 1
      if tried >= limit_of(envelope, max_attempts) then return {'exhausted', {}, {}} end
    end
    redis.call('PERSIST', heads) -- Redis allows this write at maxmemory, and then every later write of the script
    head.takeovers, head.token = head.takeovers + 1, next_token()
    if owner ~= '' then head.owner = owner end
    keep_head(heads, lease_id, head)
  end
  redis.call('ZADD', leases, deadline, lease_id)
  remember('taken')
  if head.takeovers == 0 then
    local more = head.count < max_messages and redis.call('XLEN', ready) > 0
    return {table.concat({'claimed', head.token, deadline, head.count, more and 1 or 0}, ' '), {}, {}}
  end
  return {table.concat({'taken', head.token, deadline, head.count, head.takeovers, head.owner}, ' '), {}, {}}
end
redis.call('PERSIST', heads) -- Redis allows this write at maxmemory and then every later one, so the queue can drain
tell(events, events_cap, 'waiting', promote_jobs(delayed, later, ready, now))
local late = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 16)
local o = {group = group, native = native == '1', stale = stale_ms, keep = keep == '1'}
local taken, kept = 0, {}
if redis.call('EXISTS', paused) == 0 then
  taken, kept = take_jobs({ready = ready, lease = lease}, o, 0, math.min(max_messages, 4000))
end
if taken == 0 then
  local due, last = math.huge, '0-0'
  for _, key in ipairs({delayed, leases}) do
    due = math.min(due, tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) or math.huge)
  end
  local info = redis.call('XINFO', 'STREAM', ready)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then last = info[i + 1] end
  end
  return {'empty ' .. now .. ' ' .. (due < math.huge and string.format('%.0f', due) or '0') .. ' ' .. last, late, {}}
end
head = {token = next_token(), takeovers = 0, count = taken, returned = 0, claimed = now, owner = owner}
keep_head(heads, lease_id, head)
redis.call('ZADD', leases, deadline, lease_id)
remember('claimed')
local more = taken < max_messages and redis.call('XLEN', ready) > 0
return {table.concat({'claimed', head.token, deadline, taken, more and 1 or 0}, ' '), late, kept}
