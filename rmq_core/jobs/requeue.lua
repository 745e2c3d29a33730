-- Moves jobs that a worker did not begin to the end of the stream. This wakes a worker; no attempt is counted.
-- Jobs that another worker has taken over stay with that worker.
-- KEYS: ready
-- ARGV: group  consumer  native, '1' with XACKDEL  jobs..., entry of each, and its deliveries before
-- Reply: how many jobs were moved.
-- include: jobs_entry
-- include: envelope
local back = 0
for i = 1, #jobs, 2 do
  local mine = #redis.call('XPENDING', ready, group, jobs[i], jobs[i], 1, consumer) > 0
  local entry = mine and redis.call('XRANGE', ready, jobs[i], jobs[i])[1]
  if entry and drop(ready, group, native == '1', {jobs[i]}) == 1 then
    local _, envelope = recount(envelope_of(entry[2]), {add = tonumber(jobs[i + 1]), entry = ''})
    redis.call('XADD', ready, '*', 'e', envelope)
    back = back + 1
  end
end
return back
