-- Returns the ids and newest failures of a page of dead letters, about 4 MiB of them at most; changes nothing.
-- KEYS: list
-- ARGV: offset:number, how many entries are left of the page  most:number, how many to return
-- Reply: {how many entries the list has, id and newest line of the history of each entry...}; both are empty for text that
--   is no envelope.
-- include: batches
local page = in_batches(most, function(done, n)
  return redis.call('LRANGE', list, offset + done, offset + done + n - 1)
end)
local reply = {redis.call('LLEN', list)}
for i = 1, #page do
  local envelope, id, line = page[i], nil, nil
  local _, stop, length = string.find(envelope, '^%d+ %d+ (%d+) ')
  if stop then
    line = string.match(string.sub(envelope, stop + 1, stop + length), '([^\n]*)\n$')
    id = string.match(envelope, '^(%S+) ', stop + length + 1)
  end
  reply[2 * i], reply[2 * i + 1] = id or '', line or ''
end
return reply
