-- Accepts the messages that its call appended to a stage, all or none.
-- KEYS: slot  stage
-- ARGV: seq  slot_ttl_ms  count:number, messages the stage held before  keep_ms, after which it expires
--       stamp_ms:number, server time that the publisher wrote into their stamps  added:number, the messages of this call
-- Reply: 'staged @<now ms>', 'lost' when the stage held another number of messages, 'stale @<now ms>' or 'superseded'.
-- include: clock
-- include: replay
-- include: appended
local length = redis.call('LLEN', stage)
local earlier = replay()
if earlier then return taken_back(stage, added, earlier) end
local now = clock()
if length ~= count + added then return taken_back(stage, added, refuse('lost')) end
if is_stale(stamp_ms, now) then return taken_back(stage, added, refuse('stale @' .. now)) end
redis.call('PEXPIRE', stage, keep_ms)
return remember('staged @' .. now)
