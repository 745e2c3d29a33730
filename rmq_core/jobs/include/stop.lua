-- stop() pauses a queue. The group's last delivered entry is then behind all entries, so that workers that block in Redis
-- get none; `paused` holds the entry that was delivered last before. Returns false if the queue was paused already.
-- include: group
local function stop(ready, paused, group)
  if redis.call('EXISTS', paused) == 1 then return false end
  local found = group_of(ready, group)
  redis.call('SET', paused, found and found['last-delivered-id'] or '0-0')
  if found then redis.call('XGROUP', 'SETID', ready, group, '18446744073709551615-18446744073709551615') end
  return true
end
