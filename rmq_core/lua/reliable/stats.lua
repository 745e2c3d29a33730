-- Counts what a queue holds; changes nothing.
-- KEYS: 1 queue  2 dead  3... processing lists, each followed by its claims
-- ARGV: 1 number of workers
-- Reply: {ready, dead, messages held, leases, oldest enqueued ms or '', now ms}.
-- include: clock
-- include: entries
local held, leases, met = 0, 0, {}
for i = 1, tonumber(ARGV[1]) do
  held = held + redis.call('LLEN', KEYS[1 + 2 * i])
  local notes = redis.call('HVALS', KEYS[2 + 2 * i])
  for j = 1, #notes do
    local token = holder(notes[j])
    if not met[token] then leases, met[token] = leases + 1, true end
  end
end
local oldest = redis.call('LINDEX', KEYS[1], -1)
return {redis.call('LLEN', KEYS[1]), redis.call('LLEN', KEYS[2]), held, leases,
        oldest and string.match(oldest, '^%d+ (%d+) ') or '', clock()}
