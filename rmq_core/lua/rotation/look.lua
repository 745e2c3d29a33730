-- Looks at some entries of the list from the right end on; changes nothing.
-- KEYS: 1 list  2 done
-- ARGV: 1 how many were seen before  2 how many to look at  3 seconds after which an entry is late  4 how many ids to list
-- Reply: {looked at, new, late, in progress, done, ids of new and late ones, in the order of popping}.
-- include: clock
-- include: stamps
local from, n = tonumber(ARGV[1]), tonumber(ARGV[2])
local now_s, listed = math.floor(clock() / 1000), {}
local page = redis.call('LRANGE', KEYS[1], -from - n, -from - 1)
local new, late, going, done, dropped = 0, 0, 0, 0, {}
for i = #page, 1, -1 do
  local id, stamp = stamp_of(page[i])
  local waits = false
  if not stamp then new, waits = new + 1, true
  elseif (tonumber(redis.call('ZSCORE', KEYS[2], id)) or 0) > (dropped[id] or 0) then
    done, dropped[id] = done + 1, (dropped[id] or 0) + 1
  elseif is_late(stamp, now_s, tonumber(ARGV[3])) then late, waits = late + 1, true
  else going = going + 1 end
  if waits and #listed < tonumber(ARGV[4]) then listed[#listed + 1] = id end
end
return {#page, new, late, going, done, listed}
