-- Runs one round of a worker: stores results, finishes jobs, emits events and reads new jobs. A resend finishes no job
-- twice; jobs that a lost reply contained are redelivered when their lease has expired.
-- KEYS: ready  events  paused  results..., keys of the results
-- ARGV: group  consumer  most, how many jobs to read, 0 for none  native, '1' with XREADGROUP CLAIM and XACKDEL
--       stale_ms, a worker's lease: how long it may be silent  events_cap:number  result_ttl_ms
--       active, ids of the jobs that became active  completed, ids of the jobs that were completed
--       finished..., the value of each result, and then the entries to finish
-- Reply: the entries read: {id, fields[, idle ms, deliveries before]}; {'paused'} if the queue is paused.
-- include: jobs_entry
redis.call('PERSIST', ready) -- at maxmemory Redis allows this write and, after it, the others: a full queue can drain
for i, result in ipairs(results) do
  redis.call('DEL', result)
  redis.call('XADD', result, '*', 'state', 'completed', 'value', finished[i])
  redis.call('PEXPIRE', result, result_ttl_ms)
end
for first = #results + 1, #finished, 1000 do
  drop(ready, group, native == '1', {unpack(finished, first, math.min(first + 999, #finished))})
end
if active ~= '' then tell(events, events_cap, 'active', {active}) end
if completed ~= '' then tell(events, events_cap, 'completed', {completed}) end
if most == '0' then return {} end
if redis.call('EXISTS', paused) == 1 then return {'paused'} end
local reply
if native == '1' then
  reply = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', most, 'CLAIM', stale_ms, 'STREAMS', ready, '>')
else
  reply = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', most, 'STREAMS', ready, '>')
end
return reply and reply[1][2] or {}
