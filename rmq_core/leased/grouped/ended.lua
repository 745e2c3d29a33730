-- ended() is called when a lease has ended, whose keys are deleted: all of its messages that are unsettled are acked, and
-- others may have its groups. acked_alone() counts messages of a lease that are acked one by one.
-- KEYS: ended_holds, of the lease that ended  waiters  wake
-- ARGV: channel, of notifications
-- include: ready
-- include: notify
-- include: publications
-- include: unique
local function let_go(names)
  local blocked = redis.call('SREM', held_before, lease_id)
  if #names == 0 and blocked == 0 then return end
  read_records(names)
  for i = 1, #names do
    local r = known[names[i]]
    r.active = math.max(0, r.active - 1)
    if r.place == 'r' then r.place = 'n' end
  end
  enter(names)
  store(names)
  local seen = awaited(waiters, wake)
  if seen and is_news() then notify(waiters, wake, channel, clock(), seen) end
end
local function groups_held()
  local names, tallies, held = {}, {}, redis.call('HGETALL', ended_holds)
  for i = 1, #held, 2 do
    if string.byte(held[i]) == 1 then tallies[string.sub(held[i], 2)] = tonumber(held[i + 1])
    else names[#names + 1] = held[i] end
  end
  return names, tallies
end
local function ended()
  local names, tallies = groups_held()
  for name, n in pairs(tallies) do recount_in(name, n, {leased = -1}) end
  keep_counts()
  let_go(names)
  redis.call('UNLINK', ended_holds)
end
local function acked_alone(lease, indexes)
  local _, tallies = groups_held()
  if not next(tallies) and redis.call('EXISTS', unique) == 0 then return end
  for i = 1, #indexes do
    local envelopes = {redis.call('LINDEX', lease, indexes[i] + 1)}
    local found = counted(envelopes, {leased = -1})
    set_unique(envelopes)
    for name in pairs(found) do redis.call('HINCRBY', ended_holds, '\1' .. name, -1) end
  end
  keep_counts()
end
