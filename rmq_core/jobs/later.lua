-- Returns a page of the delayed jobs, in the order of due times; changes nothing.
-- KEYS: delayed  later
-- ARGV: most:number, how many to return  last, the name before the page, '' for the first one  last_score
-- Reply: {1 if the job before is gone, so that others of its time may be repeated, else 0, names, due times in ms,
--   envelopes}.
local moved, first = 0, 0
if last ~= '' then
  local rank = redis.call('ZRANK', delayed, last)
  if rank then first = rank + 1
  else moved, first = 1, redis.call('ZCOUNT', delayed, '-inf', '(' .. last_score) end
end
local names, times, envelopes, bytes = {}, {}, {}, 0
while #names < most and bytes < 4194304 do
  local got = redis.call('ZRANGE', delayed, first + #names, first + #names + 15, 'WITHSCORES')
  if #got == 0 then break end
  for i = 1, #got, 2 do
    local envelope = redis.call('HGET', later, got[i]) or ''
    names[#names + 1], times[#times + 1], envelopes[#envelopes + 1] = got[i], got[i + 1], envelope
    bytes = bytes + #envelope
  end
end
return {moved, names, times, envelopes}
