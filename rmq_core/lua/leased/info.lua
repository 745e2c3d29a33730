-- Describes a lease without its token; changes nothing.
-- KEYS: 1 leases  2 lease  3 settled
-- ARGV: 1 lease id
-- Reply: {owner, state, claimed ms, takeovers, deadline ms or 'inf', messages, settled, fence, failures, most},
--   failures and most 0 unless its messages are isolated; or nil when there is none.
-- include: head
-- include: mark
local head = head_of(KEYS[2])
if not head then return false end
local failures, group, most = mark_of(redis.call('LINDEX', KEYS[2], 1) or '')
if group == 0 then failures, most = 0, 0 end
return {head.owner, head.state, head.claimed, head.takeovers,
        redis.call('ZSCORE', KEYS[1], ARGV[1]) or '-inf', redis.call('LLEN', KEYS[2]) - 1,
        redis.call('BITCOUNT', KEYS[3]), string.match(head.token, '^%d+'), failures, most}
