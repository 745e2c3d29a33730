-- Removes a delayed message, or one of equal messages that wait: the newest or the oldest.
-- include: ready
-- include: publications
-- include: unique
-- Returns the number of a message in its group, which is read from the end if the newest of equal ones is wanted.
local function number_of(name, entry, newest)
  local r = record_of(name)
  for step = 0, r.next - r.first - 1, 256 do
    local fields, numbers = {}, {}
    for n = step, math.min(step + 255, r.next - r.first - 1) do
      numbers[#numbers + 1] = newest and r.next - 1 - n or r.first + n
      fields[#fields + 1] = name .. '\0' .. numbers[#numbers]
    end
    local got = redis.call('HMGET', grouped, unpack(fields))
    for n = 1, #got do
      if got[n] == entry then return numbers[n] end
    end
  end
end
-- becomes: as what a publication counts the message, 'removed' or 'dead'.
local function drop_entry(key, entry, kind, becomes)
  local change = {waiting = -1, [becomes or 'removed'] = 1}
  if kind == 'zset' then
    local gone = redis.call('ZREM', key, entry)
    if gone > 0 then
      counted({entry}, change)
      set_unique({entry})
    end
    keep_counts()
    return gone
  end
  local name, isolated = group_named(entry)
  local number, r = number_of(name, entry, kind == 'newest'), record_of(name)
  if not number then return 0 end
  redis.call('HDEL', grouped, name .. '\0' .. number)
  leaves(name, number)
  r.count, line_of().count = r.count - 1, line_of().count - 1
  if in_line(r) then line.claimable = line.claimable - 1 end
  local head = number == r.first
  if head then -- what the group may have rested for
    r.first, r.until_ms = number + 1, 0
    if r.place == 'r' then r.place = 'n' end
    skip_gaps(name, r)
  end
  if isolated then r.suspects = math.max(0, r.suspects - 1) end
  if isolated or head then enter({name}) end
  store({name})
  counted({entry}, change)
  set_unique({entry})
  keep_counts()
  return 1
end
