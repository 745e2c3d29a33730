-- Ends the holding of entries of a lease: acknowledges them, or gives them back to be claimed next. A lease that does
-- not hold an entry it is asked about has lost it; as a whole, it then changes nothing.
-- KEYS: 1 slot  2 stream
-- ARGV: 1 seq  2 slot ttl ms  3 group  4 token  5 'ack', 'nack' or 'release'  6 '1' for the lease as a whole
--       7 ms after which an entry is stale  8 the consumer of what is given back  9... entry ids
-- Reply: 'lost', 'superseded', or one letter for each id: s settled, l lost.
-- include: replay
-- include: holder
local earlier = replay()
if earlier then return earlier end
local stream, group, lease, verb, stale, back = KEYS[2], ARGV[3], ARGV[4], ARGV[5], ARGV[7], ARGV[8]
local deliveries = {}
for _, entry in ipairs(held(stream, group, lease, 4000)) do deliveries[entry[1]] = entry[4] end
local letters, ids = {}, {}
for i = 9, #ARGV do
  local mine = deliveries[ARGV[i]]
  letters[#letters + 1] = mine and 's' or 'l'
  if mine then ids[#ids + 1] = ARGV[i] end
end
if ARGV[6] == '1' and #ids < #letters then return refuse('lost') end
for _, id in ipairs(ids) do
  if verb == 'ack' then
    redis.call('XACK', stream, group, id)
  elseif verb == 'nack' then
    redis.call('XCLAIM', stream, group, back, 0, id, 'IDLE', stale, 'JUSTID')
  else
    redis.call('XCLAIM', stream, group, back, 0, id, 'IDLE', stale, 'RETRYCOUNT', deliveries[id] - 1, 'JUSTID')
  end
end
leave(stream, group, lease)
return refuse(table.concat(letters))
