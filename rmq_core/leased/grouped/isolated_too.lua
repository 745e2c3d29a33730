-- Returns how many messages are isolated, by the records of the first 1,000 groups that have some; where the number of
-- leases per group is limited, at most.
-- include: ready
local function isolated_in_line(name)
  local r = known[name]
  return string.byte(name, -1) == 1 and r.count or math.min(r.suspects, r.count)
end
local function isolated_too()
  local names, count = redis.call('ZRANGE', suspects, 0, 999), 0
  read_records(names)
  for i = 1, #names do count = count + isolated_in_line(names[i]) end
  return count
end
