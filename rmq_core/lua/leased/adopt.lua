-- Takes over a lease by its id alone.
-- KEYS: 1 slot  2 leases  3 lease  4 fence  5 settled  6 done
-- ARGV: 1 seq  2 slot ttl ms  3 lease id  4 nonce  5 lease ms or 'inf'  6 '1' to set the owner  7 owner
--       8 '1' to require an owner, '2' the nonce in the token  9 that owner  10 max deliveries or 0
-- Reply: as in claim.lua 'taken ...', 'lost', 'settled <acked> ...',
--   'owned <owner>', 'exhausted' or 'superseded'.
-- include: clock
-- include: replay
-- include: head
-- include: mark
-- include: used_up
-- include: hold
-- include: takeover
local earlier = replay()
if earlier then return earlier end
local k = {leases = KEYS[2], lease = KEYS[3], fence = KEYS[4], settled = KEYS[5]}
local o = {id = ARGV[3], nonce = ARGV[4], lease_ms = ARGV[5], max_deliveries = tonumber(ARGV[10])}
local head = head_of(k.lease)
if not head then
  local done = redis.call('GET', KEYS[6])
  return refuse(done and 'settled ' .. done or 'lost')
end
if ARGV[8] == '1' and head.owner ~= ARGV[9] then return refuse('owned ' .. head.owner) end
if ARGV[8] == '2' and string.sub(head.token, -#o.nonce) ~= o.nonce then return refuse('lost') end
if ARGV[6] == '1' then o.owner = ARGV[7] end
redis.call('ZCARD', k.leases) -- refuses a wrong type before anything is written
local reply = take_over(k, o, clock(), o.owner ~= nil and o.owner ~= head.owner)
if reply == 'exhausted' then return refuse(reply) end
return remember(reply)
