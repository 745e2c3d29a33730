-- A worker gives jobs back that it did not begin: to the end of the stream, where somebody is woken; no attempt counts.
-- Those that are somebody else's by now stay so.
-- KEYS: 1 ready
-- ARGV: 1 group  2 consumer  3 '1' with XACKDEL  4... entry, and its deliveries before, of each job
-- Reply: how many.
-- include: jobs_entry
-- include: recount
local back = 0
for i = 4, #ARGV, 2 do
  local mine = #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2]) > 0
  local entry = mine and redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i])[1]
  if entry and done(KEYS[1], ARGV[1], ARGV[3] == '1', {ARGV[i]}) == 1 then
    local _, envelope = recount(envelope_of(entry[2]), {add = tonumber(ARGV[i + 1]), entry = ''})
    redis.call('XADD', KEYS[1], '*', 'e', envelope)
    back = back + 1
  end
end
return back
