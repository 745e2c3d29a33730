-- Puts jobs of a lease back, in order: into the stream, the delayed jobs (how.due) or the dead letters. k: keys;
-- how: add (deliveries to count), entry (a line of history, or '' for no failure), due, limit, max_dead, now. Returns for
-- each job whether it is dead, and the number of dead ones.
-- include: envelope
-- include: jobs_entry
-- include: later
-- include: dead
-- include: guard
local function give_jobs_back(k, how, envelopes)
  local verdicts, dead, back = {}, {}, {}
  for i = 1, #envelopes do
    local count, envelope = 0, envelopes[i]
    if how.add > 0 then count, envelope = recount(envelope, how) end
    local id = message_id(envelope)
    verdicts[i] = how.entry ~= '' and count >= limit_of(envelope, how.limit)
    if verdicts[i] then
      bury(k.dead, envelope, how.max_dead)
      dead[#dead + 1] = id
    else
      if how.due then
        put_later(k.delayed, k.later, k.alarm, how.due, id, envelope)
      else
        redis.call('XADD', k.ready, '*', 'e', envelope)
      end
      back[#back + 1] = id
    end
  end
  tell(k.events, how.events, how.due and 'retry' or 'waiting', back)
  tell(k.events, how.events, 'dead', dead)
  if #dead > 0 then guard(how.now) end
  return verdicts, #dead
end
-- Refuses a wrong type before anything is written.
local function check_job_types(k)
  redis.call('XLEN', k.ready)
  redis.call('ZCARD', k.delayed)
  redis.call('HLEN', k.later)
  redis.call('LLEN', k.dead)
  redis.call('LLEN', k.alarm)
  redis.call('XLEN', k.events)
  redis.call('STRLEN', paused)
end
local function end_lease(k, id)
  redis.call('ZREM', k.leases, id)
  redis.call('HDEL', k.heads, id)
  redis.call('UNLINK', k.lease)
end
