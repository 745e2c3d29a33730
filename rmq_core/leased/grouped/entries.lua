-- Reads waiting messages in the order of turns, group by group, and then those of groups that rest; reads a list like the
-- plain layout. Counting through the groups takes long where there are very many of them.
-- include: ready
local function page_of(key, at) return redis.call('ZRANGE', key, at, at + 499) end
local function entries(list, lo, hi)
  if list ~= ready then return redis.call('LRANGE', list, lo, hi) end
  if lo < 0 then lo, hi = math.max(0, size_of() + lo), size_of() + hi end
  local found, before_these = {}, 0
  for _, key in ipairs({turns, suspects, resting}) do
    local at, names = 0, page_of(key, 0)
    while #names > 0 and before_these <= hi do
      read_records(names)
      for i = 1, #names do
        local r, number = known[names[i]], nil
        local skip, most = math.max(0, lo - before_these), hi - before_these + 1
        number = r.first
        local seen = 0
        while number < r.next and skip < r.count and seen < math.min(r.count, most) do
          local fields = {}
          for n = number, math.min(number + 63, r.next - 1) do fields[#fields + 1] = names[i] .. '\0' .. n end
          local got = redis.call('HMGET', grouped, unpack(fields))
          for n = 1, #got do
            if got[n] then
              seen = seen + 1
              if seen > skip and seen <= most then found[#found + 1] = got[n] end
            end
          end
          number = number + #fields
        end
        before_these = before_these + r.count
      end
      at = at + 500
      names = page_of(key, at)
    end
  end
  return found
end
local function count_of(list) return list == ready and size_of() or redis.call('LLEN', list) end
