-- Adds jobs, ready or delayed, without those whose deduplication key is taken; whole or not at all.
-- KEYS: 1 slot  2 ready  3 delayed  4 later  5 alarm  6 events  7... deduplication keys, one per job or none
-- ARGV: 1 seq  2 slot ttl ms  3 deduplication window ms, 0 for none  4 nonce of this call  5 events cap
--       6 number of jobs  7... id, delay ms and body of each job
-- Reply: 'accepted [<one digit per job: 1 accepted, 0 duplicate>]' or 'superseded'.
-- include: clock
-- include: replay
-- include: jobs_entry
-- include: jobs_alarm
-- include: jobs_later
local earlier = replay()
if earlier then return earlier end
local n, window = tonumber(ARGV[6]), tonumber(ARGV[3])
local now, later, verdicts, met = clock(), {}, {}, {}
redis.call('ZCARD', KEYS[3]) -- refuses a wrong type before anything is written
redis.call('HLEN', KEYS[4])
redis.call('LLEN', KEYS[5])
redis.call('XLEN', KEYS[6])
redis.call('XLEN', KEYS[2])
local stamp = '0 ' .. now .. ' 0 '
for i = 1, n do
  local key, fresh = KEYS[6 + i], true
  if window > 0 then
    local taken = redis.call('GET', key)
    fresh = not met[key] and (not taken or taken == ARGV[4])
    met[key] = true
  end
  verdicts[i] = fresh and '1' or '0'
  if fresh then
    local id, delay, envelope = ARGV[4 + 3 * i], tonumber(ARGV[5 + 3 * i]), stamp .. ARGV[6 + 3 * i]
    if delay > 0 then
      put_later(KEYS[3], KEYS[4], KEYS[5], now + delay, id, envelope)
      later[#later + 1] = id
    else
      redis.call('XADD', KEYS[2], '*', 'e', envelope)
    end
    if window > 0 then redis.call('SET', key, ARGV[4], 'PX', window + delay) end
  end
end
tell(KEYS[6], tonumber(ARGV[5]), 'delayed', later)
return remember(window > 0 and 'accepted ' .. table.concat(verdicts) or 'accepted')
