-- Deletes all waiting messages; returns how many there were. Groups that leases hold stay held.
-- include: ready
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
  return count
end
