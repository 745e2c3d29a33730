-- Takes a lease over by its id; under the same owner it is a hand-over and counts no delivery.
-- KEYS: 1 slot  2 leases  3 heads  4 fence  5 done
-- ARGV: 1 seq  2 slot ttl ms  3 lease id  4 nonce  5 lease ms  6 owner, or ''  7 '1' when only one owner will do  8 that owner
-- Reply: 'taken <token> <deadline> <count> <takeovers> <owner>', 'settled <count>', 'owned <owner>', 'missing' or
--   'superseded'.
-- include: clock
-- include: replay
-- include: jobs_lease
local earlier = replay()
if earlier then return earlier end
local finished, head = redis.call('GET', KEYS[5]), lease_head(KEYS[3], ARGV[3])
if finished then return refuse('settled ' .. finished) end
if not head then return refuse('missing') end
if ARGV[7] == '1' and head.owner ~= ARGV[8] then return refuse('owned ' .. head.owner) end
local deadline = clock() + tonumber(ARGV[5])
redis.call('PERSIST', KEYS[3])
if ARGV[6] ~= '' and ARGV[6] ~= head.owner then head.owner, head.takeovers = ARGV[6], head.takeovers + 1 end
head.token = redis.call('INCR', KEYS[4]) .. '.' .. ARGV[4]
keep_head(KEYS[3], ARGV[3], head)
redis.call('ZADD', KEYS[2], deadline, ARGV[3])
return remember(table.concat({'taken', head.token, deadline, head.count, head.takeovers, head.owner}, ' '))
