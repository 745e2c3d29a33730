-- Returns a page of the entries of a stream, about 4 MiB of it at most; changes nothing.
-- KEYS: stream  paused?, which holds the last delivered entry of a group while its queue is paused
-- ARGV: group, '' for all entries, else for those that were not delivered to it  last, id of the entry before the page, ''
--         for the first one  most:number, how many to return  field, that holds the message
-- Reply: {id and message of each entry...}; an entry without the field has an empty message.
-- include: batches
-- include: group
local after, ids = last, {}
if last == '' then
  local found = group ~= '' and group_of(stream, group)
  after = paused and redis.call('GET', paused) or (found and found['last-delivered-id']) or '0-0'
end
local function value_of(fields)
  for i = 1, #fields, 2 do
    if fields[i] == field then return fields[i + 1] end
  end
  return ''
end
local page, reply = in_batches(most, function(_, n)
  local messages = {}
  for i, entry in ipairs(redis.call('XRANGE', stream, '(' .. after, '+', 'COUNT', n)) do
    after, ids[#ids + 1], messages[i] = entry[1], entry[1], value_of(entry[2])
  end
  return messages
end), {}
for i = 1, #page do reply[2 * i - 1], reply[2 * i] = ids[i], page[i] end
return reply
