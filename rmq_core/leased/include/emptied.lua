-- Deletes all ready messages; returns how many there were.
local function emptied()
  local count = redis.call('LLEN', key)
  redis.call('UNLINK', key)
  return count
end
