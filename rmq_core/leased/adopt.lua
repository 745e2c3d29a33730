-- Takes over a lease by its id alone.
-- KEYS: slot  leases  lease  fence  settled  done
-- ARGV: seq  slot_ttl_ms  lease_id  nonce  lease_ms, or 'inf'  set_owner, '1' to set the owner, '2' also to count a delivery in any case  owner
--       required, '1' to require an owner, '2' to require the nonce in the token, '3' that it has expired
--       required_owner  max_deliveries:number, or 0
--       takeovers:number?, how often it was taken over then, if the caller knows
-- Reply: as in claim.lua 'taken ...', 'lost', 'settled <acked> ...',
--   'owned <owner>', 'exhausted', 'outdated', 'live' (it has not expired) or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: head
-- include: takeover
local k = {leases = leases, lease = lease, fence = fence, settled = settled}
local o = {id = lease_id, nonce = nonce, lease_ms = lease_ms, max_deliveries = max_deliveries, takeovers = takeovers}
local head = head_of(lease)
if not head then
  local record = redis.call('GET', done)
  return refuse(record and 'settled ' .. record or 'lost')
end
if required == '1' and head.owner ~= required_owner then return refuse('owned ' .. head.owner) end
if required == '2' and string.sub(head.token, -#nonce) ~= nonce then return refuse('lost') end
if required == '3' and tonumber(redis.call('ZSCORE', leases, lease_id) or '-inf') > clock() then return refuse('live') end
if set_owner ~= '0' then o.owner = owner end
redis.call('ZCARD', leases) -- refuses a wrong type before anything is written
local reply = take_over(k, o, clock(), set_owner == '2' or (o.owner ~= nil and o.owner ~= head.owner))
if reply == 'exhausted' or reply == 'outdated' then return refuse(reply) end
return remember(reply)
