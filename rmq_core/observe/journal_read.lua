-- Reads a page of the journal of a queue; changes nothing.
-- KEYS: journal
-- ARGV: after, the id of the last entry that was read, '-' for none  last, the last id to read, '' for the newest now
--       most:number, how many to read
-- Reply: {the last id to read, '' without a journal, entries: {id, fields}...}.
local stop = last
if stop == '' then
  local newest = redis.call('XREVRANGE', journal, '+', '-', 'COUNT', 1)[1]
  if not newest then return {'', {}} end
  stop = newest[1]
end
return {stop, redis.call('XRANGE', journal, after == '-' and '-' or '(' .. after, stop, 'COUNT', most)}
