-- Adds jobs, ready or delayed, except those whose deduplication key is taken; adds all of them or none.
-- KEYS: slot  ready  delayed  later  alarm  events  markers..., deduplication keys, one per job or none
-- ARGV: seq  slot_ttl_ms  window_ms:number, the deduplication window, 0 for no deduplication
--       nonce, of this call  events_cap:number  jobs..., id, delay in ms and body of each
-- Reply: 'accepted [<one digit per job: 1 accepted, 0 duplicate>]' or 'superseded'.
-- include: clock
-- include: replay
-- include: stamp
-- include: jobs_entry
-- include: later
local earlier = replay()
if earlier then return earlier end
local now, put_off, verdicts, met = clock(), {}, {}, {}
redis.call('ZCARD', delayed) -- refuses a wrong type before anything is written
redis.call('HLEN', later)
redis.call('LLEN', alarm)
redis.call('XLEN', events)
redis.call('XLEN', ready)
local front = stamp(now)
for i = 1, #jobs / 3 do
  local marker, fresh = markers[i], true
  if window_ms > 0 then
    local taken = redis.call('GET', marker)
    fresh = not met[marker] and (not taken or taken == nonce)
    met[marker] = true
  end
  verdicts[i] = fresh and '1' or '0'
  if fresh then
    local id, delay_ms, envelope = jobs[3 * i - 2], tonumber(jobs[3 * i - 1]), front .. jobs[3 * i]
    if delay_ms > 0 then
      put_later(delayed, later, alarm, now + delay_ms, id, envelope)
      put_off[#put_off + 1] = id
    else
      redis.call('XADD', ready, '*', 'e', envelope)
    end
    if window_ms > 0 then redis.call('SET', marker, nonce, 'PX', window_ms + delay_ms) end
  end
end
tell(events, events_cap, 'delayed', put_off)
return remember(window_ms > 0 and 'accepted ' .. table.concat(verdicts) or 'accepted')
