-- Adds ready jobs; the server recognises the ids of a producer, so that a resend adds nothing.
-- KEYS: ready
-- ARGV: producer  jobs..., id and body of each
-- Reply: 'accepted'.
-- include: clock
-- include: stamp
local front = stamp(clock())
for i = 1, #jobs, 2 do
  redis.call('XADD', ready, 'IDMP', producer, jobs[i], '*', 'e', front .. jobs[i + 1])
end
return 'accepted'
