-- Removes an entry of the sorted set of delayed messages, or of a list one of equal entries: the newest or the oldest.
local function drop_entry(key, entry, kind)
  if kind == 'zset' then return redis.call('ZREM', key, entry) end
  return redis.call('LREM', key, kind == 'newest' and -1 or 1, entry)
end
