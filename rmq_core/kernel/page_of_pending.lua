-- Returns a page of the entries that a group was delivered and has not acknowledged; changes nothing.
-- KEYS: stream
-- ARGV: group  last, id of the last entry of the page before, '' for the first page  most, how many to read
--       field, that holds the message
-- Reply: {id to go on behind, '' at the end; id, deliveries, idle ms, consumer and message of each entry...}.
-- include: group
local reply, bytes = {''}, 0
if not group_of(stream, group) then return reply end
local found = redis.call('XPENDING', stream, group, last == '' and '-' or '(' .. last, '+', most)
for _, held in ipairs(found) do
  local entry = redis.call('XRANGE', stream, held[1], held[1])[1]
  local fields, n = entry and entry[2] or {}, #reply
  for i = 1, #fields, 2 do
    if fields[i] == field then
      reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] =
        held[1], held[4], held[3], held[2], fields[i + 1]
      bytes = bytes + #fields[i + 1]
    end
  end
  reply[1] = held[1]
  if bytes > 4194304 then return reply end
end
if #found < tonumber(most) then reply[1] = '' end
return reply
