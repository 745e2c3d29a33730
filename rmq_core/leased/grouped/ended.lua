-- Lets others have the groups of a lease that has ended.
-- KEYS: ended_holds, of the lease that ended  waiters  wake
-- ARGV: channel, of notifications
-- include: ready
-- include: notify
local function ended()
  local names, blocked = redis.call('HKEYS', ended_holds), redis.call('SREM', held_before, lease_id)
  if #names == 0 and blocked == 0 then return end
  read_records(names)
  for i = 1, #names do
    local r = known[names[i]]
    r.active = math.max(0, r.active - 1)
    if r.place == 'r' then r.place = 'n' end
  end
  enter(names)
  redis.call('UNLINK', ended_holds)
  store(names)
  local seen = awaited(waiters, wake)
  if seen then notify(waiters, wake, channel, clock(), seen) end
end
