-- Describes a lease without its token; changes nothing.
-- KEYS: leases  heads  lease
-- ARGV: lease_id
-- Reply: {owner, claimed ms, takeovers, deadline ms, count, settled, fence}, or nil when there is none.
-- include: lease
local head = lease_head(heads, lease_id)
if not head then return nil end
return {head.owner, head.claimed, head.takeovers, string.format('%.0f', redis.call('ZSCORE', leases, lease_id) or 0),
        head.count, head.count - redis.call('XLEN', lease), tonumber(string.match(head.token, '^%d+'))}
