-- Adds a chunk of imported jobs in one state and stores the progress of the import; does both or neither.
-- KEYS: slot  progress  ready  delayed  later  dead  alarm  events
-- ARGV: seq  slot_ttl_ms  before, the progress so far, '' for none  after, the progress with this chunk  keep_ms
--       state, ready, delayed or dead  max_dead:number, cap of the dead letters  events_cap:number
--       jobs..., oldest first: of each its due time in ms, or 0, its id and its envelope
-- Reply: 'imported', 'elsewhere' if another import stored other progress, 'full <setting>' or 'superseded'.
-- include: replay
-- include: imported
-- include: jobs_entry
-- include: later
-- include: dead
local earlier = replay()
if earlier then return earlier end
local refusal = at_start(progress, before)
if refusal then return refusal end
redis.call('ZCARD', delayed) -- refuses a wrong type before anything is written
redis.call('HLEN', later)
redis.call('LLEN', alarm)
redis.call('XLEN', events)
redis.call('XLEN', ready)
if state == 'dead' and redis.call('LLEN', dead) + #jobs / 3 > max_dead then return refuse('full max_dead') end
local put_off = {}
for i = 1, #jobs, 3 do
  local due, id, envelope = tonumber(jobs[i]), jobs[i + 1], jobs[i + 2]
  if state == 'ready' then redis.call('XADD', ready, '*', 'e', envelope)
  elseif state == 'dead' then bury(dead, envelope, max_dead)
  else
    put_later(delayed, later, alarm, due, id, envelope)
    put_off[#put_off + 1] = id
  end
end
tell(events, events_cap, 'delayed', put_off)
return at_end(progress, after, keep_ms)
