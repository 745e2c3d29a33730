-- Counts what a queue holds and shows what would be delivered next; changes nothing.
-- KEYS: ready  delayed  leases  dead  paused
-- ARGV: group  shown, how many entries to show  listed:number, how many lease ids to list
-- Reply: {ready, delayed, leases, dead, jobs that workers hold, now ms, envelopes, lease ids, 1 if paused, else 0}.
-- include: clock
-- include: jobs_entry
local last, held, envelopes = '0-0', 0, {}
for _, other in ipairs(redis.call('EXISTS', ready) == 1 and redis.call('XINFO', 'GROUPS', ready) or {}) do
  local info = {}
  for i = 1, #other, 2 do info[other[i]] = other[i + 1] end
  if info.name == group then last, held = info['last-delivered-id'], info.pending end
end
local before = redis.call('GET', paused)
for _, entry in ipairs(redis.call('XRANGE', ready, '(' .. (before or last), '+', 'COUNT', shown)) do
  envelopes[#envelopes + 1] = envelope_of(entry[2])
end
return {redis.call('XLEN', ready) - held, redis.call('ZCARD', delayed), redis.call('ZCARD', leases),
        redis.call('LLEN', dead), held, clock(), envelopes, redis.call('ZRANGE', leases, 0, listed - 1),
        before and 1 or 0}
