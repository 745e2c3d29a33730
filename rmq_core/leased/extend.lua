-- Moves the deadline of a lease; never to an earlier time, never past max_hold after the claim. Harmless to repeat.
-- KEYS: leases  lease
-- ARGV: lease_id  token  lease_ms, or 'inf'  max_hold_ms:number, 0 for no bound
-- Reply: the deadline in ms, 'inf', or 'lost'.
-- include: clock
-- include: head
local head = held_by(lease, token)
if not head then return 'lost' end
local deadline = '+inf'
if lease_ms ~= 'inf' then deadline = clock() + tonumber(lease_ms) end
local latest = head.claimed + max_hold_ms
if max_hold_ms > 0 and (deadline == '+inf' or deadline > latest) then deadline = latest end
redis.call('PERSIST', leases)
redis.call('ZADD', leases, 'XX', 'GT', deadline, lease_id)
local score = redis.call('ZSCORE', leases, lease_id)
if not score then return 'lost' end
if score == 'inf' then return score end
return tonumber(score)
