-- Moves an entry back to the claim end of k.queue and counts how.add deliveries. If that reaches how.max_deliveries,
-- moves it to the dead letters and returns true. An entry that is no envelope has no delivery count and would be
-- retried for ever; it therefore becomes a dead letter at its first failure.
-- include: entries
-- include: trimmed
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
  cut(k.dead, redis.call('LPUSH', k.dead, entry), how.max_dead)
  return true
end
