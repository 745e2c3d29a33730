-- Describes a lease without its token; changes nothing.
-- KEYS: 1 leases  2 heads  3 lease
-- ARGV: 1 lease id
-- Reply: {owner, claimed ms, takeovers, deadline ms, count, settled, fence}, or nil when there is none.
-- include: jobs_lease
local head = lease_head(KEYS[2], ARGV[1])
if not head then return nil end
return {head.owner, head.claimed, head.takeovers, string.format('%.0f', redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0),
        head.count, head.count - redis.call('XLEN', KEYS[3]), tonumber(string.match(head.token, '^%d+'))}
