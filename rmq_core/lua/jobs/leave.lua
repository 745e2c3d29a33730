-- A worker leaves the group, unless jobs are still in its hands: those others take over in time.
-- KEYS: 1 ready
-- ARGV: 1 group  2 consumer
-- Reply: 'left' or 'holding'.
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) > 0 then return 'holding' end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
return 'left'
