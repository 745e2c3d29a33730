-- Finishes every message of a lease.
-- KEYS: slot  leases  lease  settled  ready
--       done?  completed?, both omitted when nothing is to be kept
-- ARGV: seq  slot_ttl_ms  lease_id  token  done_ttl_ms:number?, 0 for none  completed_cap:number?
-- Reply: 'acked <count>', 'lost' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: check_layout
-- include: ended_quickly
-- Fast path: the lease is held, nothing was settled before and nothing is to be kept. It returns before the includes
-- below are defined.
local head, whole, acked = redis.call('LINDEX', lease, 0), token .. ' h ', nil
if not done and head and string.sub(head, 1, #whole) == whole then
  acked = 'acked ' .. redis.call('LLEN', lease) - 1
  redis.call('ZREM', leases, lease_id)
  redis.call('UNLINK', lease)
  if not ended_quickly or ended_quickly() then return remember(acked) end
end
-- include: ended
if acked then
  ended()
  return remember(acked)
end
-- include: clock
-- include: head
-- include: finish
head = held_by(lease, token)
if not head then return 'lost' end
local k = {id = lease_id, leases = leases, lease = lease, settled = settled, done = done, completed = completed}
local ttl_ms = done_ttl_ms or 0
return remember('acked ' .. finish(k, head, ttl_ms > 0 and clock() or 0, ttl_ms, completed_cap or 0))
