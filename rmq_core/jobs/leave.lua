-- Removes a worker from the group, unless it still holds jobs, which other workers take over in time.
-- KEYS: ready
-- ARGV: group  consumer
-- Reply: 'left' or 'holding'.
if #redis.call('XPENDING', ready, group, '-', '+', 1, consumer) > 0 then return 'holding' end
redis.call('XGROUP', 'DELCONSUMER', ready, group, consumer)
return 'left'
