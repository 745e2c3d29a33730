-- Shows a slice of what nobody holds, at most about 8 MiB of it; changes nothing.
-- KEYS: 1 list or sorted set
-- ARGV: 1 how many to skip  2 how many to show, at most  3 where to begin: 'left', 'right' or 'due', the lowest score
-- Reply: {entries in all, entries, their scores, which a list does not have}.
local skip, last, from = tonumber(ARGV[1]), ARGV[1] + ARGV[2] - 1, ARGV[3]
local total = redis.call(from == 'due' and 'ZCARD' or 'LLEN', KEYS[1])
local found, scores, bytes = {}, {}, 0
local function show(entry)
  found[#found + 1] = entry
  bytes = bytes + #entry
end
for lo = skip, last, 8 do
  local hi = math.min(lo + 7, last)
  if from == 'left' then
    for _, entry in ipairs(redis.call('LRANGE', KEYS[1], lo, hi)) do show(entry) end
  elseif from == 'right' then
    local got = redis.call('LRANGE', KEYS[1], -hi - 1, -lo - 1)
    for i = #got, 1, -1 do show(got[i]) end
  else
    local got = redis.call('ZRANGE', KEYS[1], lo, hi, 'WITHSCORES')
    for i = 1, #got, 2 do
      show(got[i])
      scores[#scores + 1] = got[i + 1]
    end
  end
  if bytes > 8388608 then break end
end
return {total, found, scores}
