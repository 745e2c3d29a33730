-- Moves chosen dead letters back to ready with a fresh delivery budget; their history stays.
-- KEYS: 1 slot  2 dead  3 ready  4 waiters  5 wake
-- ARGV: 1 seq  2 slot ttl ms  3 bell channel  4... the dead letters, each once
-- Reply: 'redriven <count>' or 'superseded'; those that are no longer there do not count.
-- include: clock
-- include: replay
-- include: ring
-- include: recount
-- include: absolve
local earlier = replay()
if earlier then return earlier end
local chosen, fresh = {}, {}
for i = 4, #ARGV do
  if redis.call('LPOS', KEYS[2], ARGV[i]) then
    chosen[#chosen + 1] = ARGV[i]
    fresh[#fresh + 1] = absolve(ARGV[i])
  end
end
if #fresh == 0 then return refuse('redriven 0') end
local seen = awaited(KEYS[4], KEYS[5])
redis.call('RPUSH', KEYS[3], unpack(fresh)) -- the first write is one that a full server refuses
for i = 1, #chosen do redis.call('LREM', KEYS[2], 1, chosen[i]) end
if seen then ring(KEYS[4], KEYS[5], ARGV[3], clock(), seen) end
return remember('redriven ' .. #fresh)
