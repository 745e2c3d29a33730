-- Lets others have the groups that a lease holds, because groups are not limited any more.
-- KEYS: slot
-- ARGV: seq  slot_ttl_ms  lease_id
-- Reply: 'done' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: ended
local names = groups_held()
let_go(names)
if #names > 0 then redis.call('HDEL', ended_holds, unpack(names)) end
return remember('done')
