-- Puts an entry back at the claim end of k.queue, how.add deliveries counted, or past how.max_deliveries among the dead
-- letters; true when it is dead. What is no envelope cannot be counted, hence not end: it is dead at its first failure.
-- include: entries
local function set_aside(k, entry, how)
  local dead = false
  if how.add > 0 and id_of(entry) == entry then dead = true
  elseif how.add > 0 then
    local count
    count, entry = recount(entry, how)
    dead = how.max_deliveries > 0 and count >= how.max_deliveries
  end
  if not dead then
    redis.call('RPUSH', k.queue, entry)
    return false
  end
  redis.call('LPUSH', k.dead, entry)
  redis.call('LTRIM', k.dead, 0, how.max_dead - 1)
  return true
end
