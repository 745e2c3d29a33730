-- Moves the deadline of a lease; never to an earlier time, never past max_hold after the claim. Harmless to repeat.
-- KEYS: 1 leases  2 lease
-- ARGV: 1 lease id  2 token  3 lease ms or 'inf'  4 max hold ms, 0 for no bound
-- Reply: the deadline in ms, 'inf', or 'lost'.
-- include: clock
-- include: head
local head = held_by(KEYS[2], ARGV[2])
if not head then return 'lost' end
local deadline = '+inf'
if ARGV[3] ~= 'inf' then deadline = clock() + tonumber(ARGV[3]) end
local hold = tonumber(ARGV[4])
if hold > 0 and (deadline == '+inf' or tonumber(deadline) > head.claimed + hold) then deadline = head.claimed + hold end
redis.call('PERSIST', KEYS[1])
redis.call('ZADD', KEYS[1], 'XX', 'GT', deadline, ARGV[1])
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score then return 'lost' end
if score == 'inf' then return score end
return tonumber(score)
