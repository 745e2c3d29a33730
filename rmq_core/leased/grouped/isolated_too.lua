-- Returns how many messages are isolated, by the records of the first 1,000 groups in line that have some, and of 1,000
-- that rest; where the number of leases per group is limited, at most.
-- include: ready
local function isolated_in_line(name)
  local r = known[name]
  return string.byte(name, -1) == 1 and r.count or math.min(r.suspects, r.count)
end
local function lines_apart()
  local names, rest = redis.call('ZRANGE', suspects, 0, 999), redis.call('ZRANGE', resting, 0, 999)
  read_records(names)
  read_records(rest)
  for i = 1, #rest do
    if isolated_in_line(rest[i]) > 0 then names[#names + 1] = rest[i] end
  end
  return names
end
local function isolated_too()
  local names, count = lines_apart(), 0
  for i = 1, #names do count = count + isolated_in_line(names[i]) end
  return count
end
