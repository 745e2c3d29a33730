-- Moves further jobs into a large lease.
-- KEYS: slot  ready  heads  lease
-- ARGV: seq  slot_ttl_ms  group  native, '1' with XREADGROUP CLAIM and XACKDEL  lease_id  token
--       most:number, how many more  stale_ms, a worker's lease: how long it may be silent
-- Reply: 'moved <count>', 'lost' or 'superseded'.
-- include: replay
-- include: lease
-- include: take
local earlier = replay()
if earlier then return earlier end
local head = lease_of(heads, lease_id, token)
if not head then return refuse('lost') end
local o = {group = group, native = native == '1', stale = stale_ms, keep = false}
local taken = take_jobs({ready = ready, lease = lease}, o, head.count, math.min(most, 4000))
head.count = head.count + taken
keep_head(heads, lease_id, head)
return remember('moved ' .. taken)
