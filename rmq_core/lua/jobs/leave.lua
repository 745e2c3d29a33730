-- A worker leaves the group, unless jobs are still in its hands: those others take over in time.
-- KEYS: ready
-- ARGV: group  consumer
-- Reply: 'left' or 'holding'.
if #redis.call('XPENDING', ready, group, '-', '+', 1, consumer) > 0 then return 'holding' end
redis.call('XGROUP', 'DELCONSUMER', ready, group, consumer)
return 'left'
