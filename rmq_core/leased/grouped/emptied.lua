-- Deletes all waiting messages; returns how many there were. Groups that leases hold stay held. forgotten() counts the
-- delayed messages of some scores, which are about to be deleted.
-- include: ready
-- include: publications
local function in_delayed(delayed, low, high)
  local found, at = {}, 0
  while redis.call('EXISTS', publications) == 1 do
    local page = redis.call('ZRANGEBYSCORE', delayed, low, high, 'LIMIT', at, 500)
    add_each(found, page)
    at = at + 500
    if #page < 500 then break end
  end
  return found
end
local function forgotten(delayed, low, high)
  for name, n in pairs(in_delayed(delayed, low, high)) do recount_in(name, n, {waiting = -1, removed = 1}) end
  keep_counts()
end
local function emptied()
  local count, cursor, held = size_of(), '0', {}
  repeat
    local page = redis.call('HSCAN', groups, cursor, 'COUNT', 1000)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      if page[2][i] ~= '\0' and not string.match(page[2][i + 1], '^%a %S+ %S+ %S+ 0 ') then held[#held + 1] = page[2][i] end
    end
  until cursor == '0'
  read_records(held)
  redis.call('UNLINK', grouped, turns, suspects, resting)
  line_of().count, line.claimable = 0, 0
  for i = 1, #held do known[held[i]].count, known[held[i]].was = 0, 'n' end
  redis.call('DEL', groups)
  store(held)
  local rest = in_delayed(delayed, '-inf', '+inf')
  for _, name in ipairs(redis.call('HKEYS', publications)) do
    local c = counts_of(name)
    c.waiting, c.removed = rest[name] or 0, c.removed + c.waiting - (rest[name] or 0)
  end
  keep_counts()
  return count
end
