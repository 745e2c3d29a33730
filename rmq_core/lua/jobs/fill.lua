-- Goes on moving jobs into a large lease.
-- KEYS: 1 slot  2 ready  3 heads  4 lease
-- ARGV: 1 seq  2 slot ttl ms  3 group  4 '1' with XREADGROUP CLAIM and XACKDEL  5 lease id  6 token  7 how many more
--       8 lease of workers, ms
-- Reply: 'moved <count>', 'lost' or 'superseded'.
-- include: replay
-- include: recount
-- include: jobs_entry
-- include: jobs_lease
-- include: jobs_take
local earlier = replay()
if earlier then return earlier end
local head = lease_of(KEYS[3], ARGV[5], ARGV[6])
if not head then return refuse('lost') end
local o = {group = ARGV[3], native = ARGV[4] == '1', stale = ARGV[8], keep = false}
local taken = take_jobs({ready = KEYS[2], lease = KEYS[4]}, o, head.count, math.min(tonumber(ARGV[7]), 4000))
head.count = head.count + taken
keep_head(KEYS[3], ARGV[5], head)
return remember('moved ' .. taken)
