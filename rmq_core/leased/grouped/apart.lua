-- Returns how many messages are isolated, and those of them from `lo` to `hi`, about 8 MiB of them at most, group by group.
-- It looks at the first 1,000 groups in line that have some, and at 1,000 that rest; and, where the number of leases per
-- group is limited, at no more than 10,000 messages that are not isolated, which may wait before the others.
-- include: isolated_too
local function apart(_, lo, hi)
  local total, names, found, bytes, seen, passed = isolated_too(), lines_apart(), {}, 0, 0, 0
  for i = 1, #names do
    local name, open = names[i], isolated_in_line(names[i])
    local r, number = known[name], known[name].first
    if string.byte(name, -1) == 1 and seen + open <= lo then seen, open = seen + open, 0 end -- it has no others
    while open > 0 and number < r.next and passed < 10000 do
      local fields = {}
      for n = number, math.min(number + 7, r.next - 1) do fields[#fields + 1] = name .. '\0' .. n end
      number = number + #fields
      local got = redis.call('HMGET', grouped, unpack(fields))
      for n = 1, #fields do
        local _, failure = mark_of(got[n] or '')
        if got[n] and failure == 0 then passed = passed + 1
        elseif got[n] and open > 0 then
          if #found > hi - lo or bytes > 8388608 then return total, found end
          seen, open = seen + 1, open - 1
          if seen > lo then found[#found + 1], bytes = got[n], bytes + #got[n] end
        end
      end
    end
  end
  return math.min(total, seen), found
end
