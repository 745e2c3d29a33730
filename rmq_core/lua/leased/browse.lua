-- Shows a slice of what nobody holds, at most about 8 MiB of it; changes nothing.
-- KEYS: 1 list or sorted set
-- ARGV: 1 how many to skip  2 how many to show, at most  3 '1' for a sorted set
-- Reply: {entries in all, entries, their scores, which a list does not have}.
local skip, last, sorted = tonumber(ARGV[1]), ARGV[1] + ARGV[2] - 1, ARGV[3] == '1'
local total = sorted and redis.call('ZCARD', KEYS[1]) or redis.call('LLEN', KEYS[1])
local found, scores, bytes = {}, {}, 0
for lo = skip, last, 8 do
  local hi = math.min(lo + 7, last)
  local got = sorted and redis.call('ZRANGE', KEYS[1], lo, hi, 'WITHSCORES') or redis.call('LRANGE', KEYS[1], lo, hi)
  for i = 1, #got, sorted and 2 or 1 do
    found[#found + 1] = got[i]
    bytes = bytes + #got[i]
    if sorted then scores[#scores + 1] = got[i + 1] end
  end
  if bytes > 8388608 then break end
end
return {total, found, scores}
