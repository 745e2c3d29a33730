-- Deletes all waiting messages; returns how many there were. Groups that leases hold stay held. forgotten() counts the
-- delayed messages of some scores, which are about to be deleted.
-- include: ready
-- include: publications
-- include: unique
-- Calls a function with the delayed messages, page by page, if they may be counted or have keys.
local function each_delayed(delayed, low, high, call)
  local at, page = 0, redis.call('EXISTS', publications, unique) > 0 and {}
  while page do
    page = redis.call('ZRANGEBYSCORE', delayed, low, high, 'LIMIT', at, 500)
    call(page)
    at = at + 500
    if #page < 500 then return end
  end
end
local function forgotten(delayed, low, high)
  each_delayed(delayed, low, high, function(page)
    counted(page, {waiting = -1, removed = 1})
    set_unique(page)
  end)
  keep_counts()
end
-- Frees the keys of all waiting messages but these.
local function free_waiting(kept)
  local cursor, gone = '0', {}
  repeat
    local page = redis.call('HSCAN', unique, cursor, 'COUNT', 1000)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      if string.byte(page[2][i + 1]) == 119 and not kept[page[2][i]] then gone[#gone + 1] = page[2][i] end
    end
  until cursor == '0'
  for lo = 1, #gone, 4000 do redis.call('HDEL', unique, unpack(gone, lo, math.min(#gone, lo + 3999))) end
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
  redis.call('UNLINK', grouped, turns, suspects, resting, expiring)
  line_of().count, line.claimable = 0, 0
  for i = 1, #held do known[held[i]].count, known[held[i]].was = 0, 'n' end
  redis.call('DEL', groups)
  store(held)
  local rest, kept = {}, {}
  each_delayed(delayed, 0, '+inf', function(page) -- those below are isolated: they go, too, and were counted out
    add_each(rest, page)
    for _, digest in ipairs(digests_in(page)) do kept[digest] = true end
  end)
  free_waiting(kept)
  for _, name in ipairs(redis.call('HKEYS', publications)) do
    local c = counts_of(name)
    c.waiting, c.removed = rest[name] or 0, c.removed + c.waiting - (rest[name] or 0)
  end
  keep_counts()
  return count
end
