-- Describes a lease without its token; changes nothing.
-- KEYS: leases  lease  settled
-- ARGV: lease_id
-- Reply: {owner, state, claimed ms, takeovers, deadline ms or 'inf', messages, settled, fence, failures, most},
--   failures and most 0 unless its messages are isolated; or nil when there is none.
-- include: head
-- include: mark
local head = head_of(lease)
if not head then return false end
local failures, group, most = mark_of(redis.call('LINDEX', lease, 1) or '')
if group == 0 then failures, most = 0, 0 end
return {head.owner, head.state, head.claimed, head.takeovers,
        redis.call('ZSCORE', leases, lease_id) or '-inf', redis.call('LLEN', lease) - 1,
        redis.call('BITCOUNT', settled), string.match(head.token, '^%d+'), failures, most}
