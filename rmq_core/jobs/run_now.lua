-- Ends the delay of a job: moves it to the end of the stream.
-- KEYS: slot  ready  delayed  later  events
-- ARGV: seq  slot_ttl_ms  job_id  events_cap:number
-- Reply: 'ready', 'missing' or 'superseded'.
-- include: replay
-- include: jobs_entry
local earlier = replay()
if earlier then return earlier end
redis.call('XLEN', ready) -- refuses a wrong type before anything is written
redis.call('XLEN', events)
local envelope = redis.call('ZSCORE', delayed, job_id) and redis.call('HGET', later, job_id)
if not envelope then return refuse('missing') end
redis.call('PERSIST', delayed) -- a full server allows this write and the later ones, so the queue can drain
redis.call('ZREM', delayed, job_id)
redis.call('HDEL', later, job_id)
redis.call('XADD', ready, '*', 'e', envelope)
tell(events, events_cap, 'waiting', {job_id})
return remember('ready')
