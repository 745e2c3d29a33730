-- Returns a page of a sorted set, about 4 MiB of it at most; changes nothing.
-- KEYS: set
-- ARGV: low, the lowest score  high, bound of the scores, '(' before it when it is excluded  most:number, how many to return
--       last, the entry before the page, '' for the first one  last_score
-- Reply: {1 if the entry before is gone, so that others of its score may be repeated, else 0, entries, their scores}.
-- include: batches
local moved, first, scores = 0, redis.call('ZCOUNT', set, '-inf', '(' .. low), {}
local stop = redis.call('ZCOUNT', set, '-inf', high)
if last ~= '' then
  local rank = redis.call('ZRANK', set, last)
  if rank then first = rank + 1
  else moved, first = 1, redis.call('ZCOUNT', set, '-inf', '(' .. last_score) end
end
local page = in_batches(math.min(most, stop - first), function(done, n)
  local got, entries = redis.call('ZRANGE', set, first + done, first + done + n - 1, 'WITHSCORES'), {}
  for i = 1, #got, 2 do entries[#entries + 1], scores[#scores + 1] = got[i], got[i + 1] end
  return entries
end)
return {moved, page, scores}
