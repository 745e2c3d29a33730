-- Deletes all ready messages; returns how many there were. In another layout, forgotten() counts the delayed messages of
-- some scores, which are about to be deleted.
local forgotten
local function emptied()
  local count = redis.call('LLEN', key)
  redis.call('UNLINK', key)
  return count
end
