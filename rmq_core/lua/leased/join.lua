-- Tells what the holder of a lease knows of it, the token too; changes nothing.
-- KEYS: 1 leases  2 lease
-- ARGV: 1 lease id
-- Reply: {token, takeovers, owner, messages, deadline ms or 'inf'}, or nil when there is none.
-- include: head
local head = head_of(KEYS[2])
if not head then return false end
return {head.token, head.takeovers, head.owner, redis.call('LLEN', KEYS[2]) - 1,
        redis.call('ZSCORE', KEYS[1], ARGV[1]) or 'inf'}
