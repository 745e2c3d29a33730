-- Returns what the holder of a lease knows about it, including the token; changes nothing.
-- KEYS: leases  lease
-- ARGV: lease_id
-- Reply: {token, takeovers, owner, messages, deadline ms or 'inf'}, or nil when there is none.
-- include: head
local head = head_of(lease)
if not head then return false end
return {head.token, head.takeovers, head.owner, redis.call('LLEN', lease) - 1,
        redis.call('ZSCORE', leases, lease_id) or 'inf'}
