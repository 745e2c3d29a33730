-- Returns the isolated messages by the failure that they have in common: {<how many>, <how many of them a claim may
-- take>, ...}. It reads the first 200 of them, or 1 MiB; one entry counts the others. chosen: only those of these
-- lines.
-- include: isolated_too
local function isolated_groups(_, _, chosen)
  local names, sizes, shares, order = nil, {}, {}, {}
  if chosen then names = in_order('s', chosen) else names = redis.call('ZRANGE', suspects, 0, 999) end
  read_records(names)
  local left, seen, bytes, share = 0, 0, 0, 1
  for i = 1, #names do
    local r, open = known[names[i]], isolated_in_line(names[i])
    local number = r.first
    while open > 0 and number < r.next and seen < 200 and bytes < 1048576 do
      local envelope = redis.call('HGET', grouped, names[i] .. '\0' .. number)
      number = number + 1
      if envelope then
        local _, failure, most = mark_of(envelope)
        if failure == 0 then open = 0 break end -- the record counts how many there are at most
        if not sizes[failure] then
          order[#order + 1], sizes[failure], shares[failure] = failure, 0, math.max(1, most)
        end
        sizes[failure], share = sizes[failure] + 1, shares[failure]
        open, seen, bytes = open - 1, seen + 1, bytes + #envelope
      end
    end
    left = left + open
  end
  local found = {}
  for i = 1, #order do found[2 * i - 1], found[2 * i] = sizes[order[i]], shares[order[i]] end
  if left > 0 then found[#found + 1], found[#found + 2] = left, share end
  return found
end
