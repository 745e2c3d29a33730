-- Lets a shard refuse all publishers. Of the first shard, removes the mark that there are others, but only if the map is
-- still what the caller stored; a resend finds neither.
-- KEYS: epoch  line, the mark in the place of a list  format
-- ARGV: leaving, the settings of the queue with that map; '-' for another shard than the first, '' if the caller knows of
--         no shards
local function leave_map()
  if leaving == '' then return false end
  if leaving ~= '-' then
    local stored = redis.call('GET', settings) or ''
    if stored ~= leaving and (stored ~= '' or redis.call('EXISTS', epoch) == 1) then return false end
    if redis.call('TYPE', line).ok == 'string' then redis.call('UNLINK', line, format) end
  end
  redis.call('UNLINK', epoch)
  return true
end
