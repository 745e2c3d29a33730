-- Opens a lease without messages: the home of a lease whose messages are in other shards.
-- KEYS: slot  leases  lease  fence  done  parts, the record of decide.lua
-- ARGV: seq  slot_ttl_ms  lease_id  nonce  lease_ms, or 'inf'  owner
-- Reply: 'claimed <token> <deadline ms> 0 0 0 0', 'held' (there is such a lease), 'unfinished' (parts of one
--   that was acked are not acked yet), 'settled <acked> ...' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: grant
-- include: claimed
local record = redis.call('GET', done)
if record then return refuse('settled ' .. record) end
if redis.call('EXISTS', lease) == 1 then return refuse('held') end
if redis.call('EXISTS', parts) == 1 then return refuse('unfinished') end
redis.call('ZCARD', leases) -- refuses a wrong type before anything is written
local now = string.format('%.0f', clock())
local k, o = {leases = leases, fence = fence}, {nonce = nonce, lease_ms = lease_ms}
local token, deadline = next_token(k, o), deadline_of(o, now)
redis.call('RPUSH', lease, token .. ' h ' .. now .. ' 0 0 ' .. owner)
redis.call('ZADD', leases, deadline, lease_id)
return remember(claimed(token, deadline, 0, 0, 0, 0))
