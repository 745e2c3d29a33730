-- Counts what a queue holds; changes nothing.
-- KEYS: queue  dead  lists..., of each worker its processing list and its claims
-- ARGV: none
-- Reply: {ready, dead, messages held, leases, oldest enqueued ms or '', now ms}.
-- include: clock
-- include: entries
local held, leases, met = 0, 0, {}
for i = 1, #lists, 2 do
  held = held + redis.call('LLEN', lists[i])
  local notes = redis.call('HVALS', lists[i + 1])
  for j = 1, #notes do
    local token = holder(notes[j])
    if not met[token] then leases, met[token] = leases + 1, true end
  end
end
local oldest = redis.call('LINDEX', queue, -1)
return {redis.call('LLEN', queue), redis.call('LLEN', dead), held, leases,
        oldest and string.match(oldest, '^%d+ (%d+) ') or '', clock()}
