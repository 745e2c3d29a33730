-- Finishes every message of a lease.
-- KEYS: 1 slot  2 leases  3 lease  4 settled
--       5 done  6 completed, neither when nothing is to be kept
-- ARGV: 1 seq  2 slot ttl ms  3 lease id  4 token  5 done ttl ms, 0 for none  6 completed log cap
-- Reply: 'acked <count>', 'lost' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- Held, nothing settled before and nothing to keep: answered before the rest below is even defined.
local head, whole = redis.call('LINDEX', KEYS[3], 0), ARGV[4] .. ' h '
if not KEYS[5] and head and string.sub(head, 1, #whole) == whole then
  local count = redis.call('LLEN', KEYS[3]) - 1
  redis.call('ZREM', KEYS[2], ARGV[3])
  redis.call('UNLINK', KEYS[3])
  return remember('acked ' .. count)
end
-- include: clock
-- include: head
-- include: finish
head = held_by(KEYS[3], ARGV[4])
if not head then return 'lost' end
local k = {id = ARGV[3], leases = KEYS[2], lease = KEYS[3], settled = KEYS[4], done = KEYS[5], completed = KEYS[6]}
local done_ttl = tonumber(ARGV[5] or 0)
return remember('acked ' .. finish(k, head, done_ttl > 0 and clock() or 0, done_ttl, tonumber(ARGV[6] or 0)))
