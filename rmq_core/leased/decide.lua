-- Acks a lease that has parts in other shards: finishes its messages here, and records which parts are acked from now on.
-- KEYS: slot  leases  lease  settled  done  completed  parts, the record
-- ARGV: seq  slot_ttl_ms  lease_id  token  done_ttl_ms:number, 0 for none  completed_cap:number
--       listed, '<shard>=<token> ...' of each part  also:number, how many messages the parts have
--       peace_ms:number, after which any client acks parts that are left
-- Reply: 'acked <count>', 'lost' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: head
-- include: finish
local head, now = held_by(lease, token), clock()
if not head then return 'lost' end
local k = {id = lease_id, leases = leases, lease = lease, settled = settled, done = done, completed = completed}
redis.call('STRLEN', parts) -- refuses a wrong type before anything is written
local acked = finish(k, head, now, done_ttl_ms, completed_cap)
if done_ttl_ms > 0 then
  local own, rest = string.match(redis.call('GET', done), '^(%d+)(.*)$')
  redis.call('SET', done, own + also .. rest, 'PX', done_ttl_ms)
end
redis.call('SET', parts, listed)
redis.call('ZADD', leases, now + peace_ms, '~=' .. lease_id)
return remember('acked ' .. acked)
