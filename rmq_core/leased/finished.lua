-- Forgets that parts of an acked lease were left to ack. The record of a later lease of the same id stays.
-- KEYS: leases  parts, the record of decide.lua
-- ARGV: listed, of the parts that are acked now  member, which reminds other clients of the record
-- Reply: how many records are left, 0 or 1.
if (redis.call('GET', parts) or '') ~= listed then return 1 end
redis.call('DEL', parts)
redis.call('ZREM', leases, member)
return 0
