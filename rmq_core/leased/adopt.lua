-- Takes over a lease by its id alone.
-- KEYS: slot  leases  lease  fence  settled  done
-- ARGV: seq  slot_ttl_ms  lease_id  nonce  lease_ms, or 'inf'  set_owner, '1' to set the owner  owner
--       required, '1' to require an owner, '2' to require the nonce in the token
--       required_owner  max_deliveries:number, or 0
-- Reply: as in claim.lua 'taken ...', 'lost', 'settled <acked> ...',
--   'owned <owner>', 'exhausted' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: head
-- include: takeover
local k = {leases = leases, lease = lease, fence = fence, settled = settled}
local o = {id = lease_id, nonce = nonce, lease_ms = lease_ms, max_deliveries = max_deliveries}
local head = head_of(lease)
if not head then
  local record = redis.call('GET', done)
  return refuse(record and 'settled ' .. record or 'lost')
end
if required == '1' and head.owner ~= required_owner then return refuse('owned ' .. head.owner) end
if required == '2' and string.sub(head.token, -#nonce) ~= nonce then return refuse('lost') end
if set_owner == '1' then o.owner = owner end
redis.call('ZCARD', leases) -- refuses a wrong type before anything is written
local reply = take_over(k, o, clock(), o.owner ~= nil and o.owner ~= head.owner)
if reply == 'exhausted' then return refuse(reply) end
return remember(reply)
