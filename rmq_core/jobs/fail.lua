-- Fails a job: moves it to the delayed jobs with one more attempt, or to the dead letters. Only the first report
-- counts.
-- KEYS: slot  ready  delayed  later  dead  events  alarm  result  paused
-- ARGV: seq  slot_ttl_ms  group  native, '1' with XACKDEL  entry_id  attempts:number, that failed
--       to_dead, '1' for the dead letters  delay_ms:number  consumer  reason  max_dead:number  events_cap:number
--       breaker, of breaker.lua  result_ttl_ms, 0 for no result  emit_active, '1' to emit the event 'active' too
-- Reply: 'later', 'dead' and what reported() adds, 'gone' or 'superseded'.
-- include: clock
-- include: replay
-- include: envelope
-- include: jobs_entry
-- include: later
-- include: dead
-- include: guard
local earlier = replay()
if earlier then return earlier end
local entry = redis.call('XRANGE', ready, entry_id, entry_id)[1]
local envelope = entry and envelope_of(entry[2])
redis.call('ZCARD', delayed) -- refuses a wrong type before anything is written
redis.call('HLEN', later)
redis.call('LLEN', dead)
redis.call('XLEN', events)
redis.call('LLEN', alarm)
redis.call('XLEN', result)
redis.call('STRLEN', paused)
if not envelope or drop(ready, group, native == '1', {entry_id}) == 0 then return refuse('gone') end
local now = clock()
local before = deliveries(envelope)
local line = table.concat({'nack', now, consumer, reason}, '\t') .. '\n'
local _, failed = recount(envelope, {add = attempts - before, entry = line})
local id = message_id(failed)
if emit_active == '1' then tell(events, events_cap, 'active', {id}) end
if to_dead == '1' then
  bury(dead, failed, max_dead)
  tell(events, events_cap, 'failed', {id}, reason)
  tell(events, events_cap, 'dead', {id}, reason)
  if result_ttl_ms ~= '0' then
    redis.call('DEL', result)
    redis.call('XADD', result, '*', 'state', 'dead', 'value', reason)
    redis.call('PEXPIRE', result, result_ttl_ms)
  end
  guard(now)
  return remember(reported('dead'))
end
put_later(delayed, later, alarm, now + delay_ms, id, failed)
tell(events, events_cap, 'failed', {id}, reason)
tell(events, events_cap, 'retry', {id}, delay_ms)
return remember('later')
