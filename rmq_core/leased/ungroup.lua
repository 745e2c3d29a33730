-- Makes a queue in groups a plain one, in steps: moves up to 1,000 messages to a commit, by the order of turns, and after
-- the last of them makes it the list of ready messages. Until then the queue works as before.
-- KEYS: slot  ready  format  leases  staged, record of the commit  stage, its messages  waiters  wake
-- ARGV: seq  slot_ttl_ms  channel, of notifications  commit, its member of `leases`  element, of the record
--       peace_ms:number, how long until other clients move the messages back to their groups
-- Reply: 'moved <messages left in groups>', 'counted <publication that has not ended>' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: ready
-- include: notify
-- include: publications
for _, name in ipairs(redis.call('HKEYS', publications)) do
  if counts_of(name).ended_ms == 0 then return refuse('counted ' .. name) end
end
local moved, l = 0, line_of()
redis.call('PERSIST', ready) -- Redis allows this write at maxmemory, and then every later write of the script
for _, key in ipairs({turns, suspects, resting}) do
  local names = redis.call('ZRANGE', key, 0, 499)
  read_records(names)
  for i = 1, #names do
    local r = known[names[i]]
    while moved < 1000 and r.count > 0 and r.first < r.next do
      local field = names[i] .. '\0' .. r.first
      local envelope = redis.call('HGET', grouped, field)
      if envelope then leaves(names[i], r.first) end
      r.first = r.first + 1
      if envelope then
        redis.call('HDEL', grouped, field)
        redis.call('RPUSH', stage, envelope)
        r.count, l.count, moved = r.count - 1, l.count - 1, moved + 1
        if in_line(r) then l.claimable = l.claimable - 1 end
      end
    end
  end
  store(names)
end
local left = l.count
if left == 0 then
  redis.call('DEL', ready, format)
  redis.call('UNLINK', groups, grouped, turns, suspects, resting, held_before, expiring, staged, publications, watchers)
  redis.call('ZREM', leases, commit)
  if redis.call('EXISTS', stage) == 1 then redis.call('RENAME', stage, ready) end
  local seen = awaited(waiters, wake)
  if seen then notify(waiters, wake, channel, clock(), seen, true) end
else
  if redis.call('EXISTS', staged) == 0 then redis.call('RPUSH', staged, element) end
  redis.call('ZADD', leases, clock() + peace_ms, commit)
end
return remember('moved ' .. left)
