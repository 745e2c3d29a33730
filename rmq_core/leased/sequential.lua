-- Records that the holder works on the messages of a lease one by one, in order, and settles each before it begins the
-- next. If such a lease fails, only the first unsettled message counts the delivery (see reclaim.lua).
-- KEYS: lease
-- ARGV: token
-- Reply: 'noted' or 'lost'.
-- include: head
local head = held_by(lease, token)
if not head then return 'lost' end
redis.call('PERSIST', lease) -- Redis allows this write at maxmemory, and then the next one
head.state = 'q'
redis.call('LSET', lease, 0, head_text(head))
return 'noted'
