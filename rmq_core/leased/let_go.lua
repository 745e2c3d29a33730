-- Lets others have the groups that a lease holds, because groups are not limited any more.
-- KEYS: slot
-- ARGV: seq  slot_ttl_ms  lease_id
-- Reply: 'done' or 'superseded'.
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: ended
let_go((groups_held()))
return remember('done')
