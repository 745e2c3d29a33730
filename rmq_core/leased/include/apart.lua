-- Returns how many messages are isolated, and those of them from `lo` to `hi`, about 8 MiB of them at most. They come first
-- in the set of delayed messages; among them, the group that is claimed first comes last. Within a group, the set has the
-- order of claiming. Therefore a slice ends with its group.
-- include: next_isolated
redis.call('LLEN', ready) -- refuses a queue of another layout
local function of_group(key, lo, hi, isolated)
  local rank = redis.call('ZCARD', key) - isolated + lo
  local at = redis.call('ZREVRANGE', key, rank, rank, 'WITHSCORES')[2]
  local before, size = redis.call('ZCOUNT', key, '(' .. at, '(0'), redis.call('ZCOUNT', key, at, at)
  local first = isolated - before - size
  return redis.call('ZRANGE', key, first + lo - before, first + math.min(hi - before, size - 1))
end
local function apart(key, lo, hi)
  local isolated, found, bytes = isolated_in(key), {}, 0
  hi = math.min(hi, isolated - 1)
  while lo <= hi and bytes <= 8388608 do
    local got = of_group(key, lo, math.min(lo + 7, hi), isolated)
    for i = 1, #got do found[#found + 1], bytes = got[i], bytes + #got[i] end
    lo = lo + #got
  end
  return isolated, found
end
