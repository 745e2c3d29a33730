-- Wakes one promoter, because a job is due sooner than all others.
local function alarmed(alarm)
  redis.call('LPUSH', alarm, '1')
  redis.call('LTRIM', alarm, 0, 0)
  redis.call('PEXPIRE', alarm, 60000)
end
