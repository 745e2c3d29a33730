-- Classifies entries of the list, read from its right end; changes nothing.
-- KEYS: list  done
-- ARGV: offset:number, how many to skip  most:number, how many to read
--       timeout_s:number, after which an entry is late  listed:number, how many ids to list
-- Reply: {read, new, late, in progress, done, ids of new and late ones, in the order of popping}.
-- include: clock
-- include: stamps
local now_s, ids = math.floor(clock() / 1000), {}
local page = redis.call('LRANGE', list, -offset - most, -offset - 1)
local new, late, going, finished, dropped = 0, 0, 0, 0, {}
for i = #page, 1, -1 do
  local id, stamp = stamp_of(page[i])
  local waits = false
  if not stamp then new, waits = new + 1, true
  elseif (tonumber(redis.call('ZSCORE', done, id)) or 0) > (dropped[id] or 0) then
    finished, dropped[id] = finished + 1, (dropped[id] or 0) + 1
  elseif is_late(stamp, now_s, timeout_s) then late, waits = late + 1, true
  else going = going + 1 end
  if waits and #ids < listed then ids[#ids + 1] = id end
end
return {#page, new, late, going, finished, ids}
