-- Returns when the message at the front of the line was enqueued, '' without messages. The oldest of all is not known:
-- it may be in any group. chosen: when the oldest of those was enqueued that are first in these lines, at most 100 of
-- them.
-- include: entries
-- Returns how many messages claims may get now, to some hundred groups.
local function ready_in(_)
  local sum, left = 0, {}
  for _, key in ipairs(group_rate and {turns, suspects} or {}) do
    local names = redis.call('ZRANGE', key, 0, 499)
    read_records(names)
    for i = 1, #names do
      local bucket = bucket_of(names[i]) or ''
      left[bucket] = (left[bucket] or tokens_of(names[i]))
      local got = math.min(left[bucket], known[names[i]].count)
      sum, left[bucket] = sum + got, left[bucket] - got
    end
    sum = sum + redis.call('ZCARD', key) - #names
  end
  return group_rate and math.min(sum, claimable_now()) or claimable_now()
end
local function oldest_in(lines)
  local found
  for i = 1, math.min(#lines, 100) do
    local r, first = known[lines[i]], nil
    for number = r.first, r.next - 1 do
      first = redis.call('HGET', grouped, lines[i] .. '\0' .. number)
      if first then break end
    end
    local at = first and enqueued(first)
    if at and (not found or tonumber(at) < tonumber(found)) then found = at end
  end
  return found
end
local function oldest(ready, _, _, chosen)
  if chosen then
    local a, b = oldest_in(in_order('t', chosen)), oldest_in(in_order('s', chosen))
    return a and b and (tonumber(a) < tonumber(b) and a or b) or a or b or ''
  end
  local first = entries(ready, 0, 0)[1]
  return first and enqueued(first) or ''
end
