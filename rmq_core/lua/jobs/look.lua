-- Counts what a queue holds and shows what would be delivered next; changes nothing.
-- KEYS: 1 ready  2 delayed  3 leases  4 dead
-- ARGV: 1 group  2 how many entries to show  3 how many lease ids to list
-- Reply: {ready, delayed, leases, dead, jobs in the hands of workers, now ms, envelopes, lease ids}.
-- include: clock
-- include: jobs_entry
local last, held, shown = '0-0', 0, {}
for _, group in ipairs(redis.call('EXISTS', KEYS[1]) == 1 and redis.call('XINFO', 'GROUPS', KEYS[1]) or {}) do
  local info = {}
  for i = 1, #group, 2 do info[group[i]] = group[i + 1] end
  if info.name == ARGV[1] then last, held = info['last-delivered-id'], info.pending end
end
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '(' .. last, '+', 'COUNT', ARGV[2])) do
  shown[#shown + 1] = envelope_of(entry[2])
end
return {redis.call('XLEN', KEYS[1]) - held, redis.call('ZCARD', KEYS[2]), redis.call('ZCARD', KEYS[3]),
        redis.call('LLEN', KEYS[4]), held, clock(), shown, redis.call('ZRANGE', KEYS[3], 0, tonumber(ARGV[3]) - 1)}
