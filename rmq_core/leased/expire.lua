-- Tells a client of messages that became dead letters because they expired while they waited, and makes dead letters of more
-- of them.
-- KEYS: slot  dead  overdue, their ids
-- ARGV: seq  slot_ttl_ms  max_dead:number, cap of the dead letters
-- Reply: 'expired <how many are left> [<ids>]' and trimmed ones, or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: ready
-- include: trimmed
local left, ids = in_groups and bury(clock()) or 0, redis.call('LRANGE', overdue, 0, 999)
redis.call('LTRIM', overdue, #ids, -1)
cut(dead, redis.call('LLEN', dead), max_dead)
return refuse(reported(table.concat({'expired', left + redis.call('LLEN', overdue), unpack(ids)}, ' ')))
