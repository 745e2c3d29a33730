-- Settles entries of a lease: acknowledges them, or makes them stale, so that they can be claimed again. An
-- entry that the lease does not hold is lost; if the lease is settled as a whole, one lost entry means that nothing
-- changes.
-- KEYS: slot  stream
-- ARGV: seq  slot_ttl_ms  group  token  verb, ack, release or nack
--       scope, 'whole' for the lease as a whole, else 'some'  stale_ms, after which an entry is stale
--       back, the consumer that holds nacked and released entries  ids..., of entries
-- Reply: 'lost', 'superseded', or one letter for each id: s settled, l lost.
-- include: replay
-- include: holder
local earlier = replay()
if earlier then return earlier end
local deliveries = {}
for _, entry in ipairs(held(stream, group, token, 4000)) do deliveries[entry[1]] = entry[4] end
local letters, mine = {}, {}
for i, id in ipairs(ids) do
  letters[i] = deliveries[id] and 's' or 'l'
  if deliveries[id] then mine[#mine + 1] = id end
end
if scope == 'whole' and #mine < #ids then return refuse('lost') end
for _, id in ipairs(mine) do
  if verb == 'ack' then
    redis.call('XACK', stream, group, id)
  elseif verb == 'nack' then
    redis.call('XCLAIM', stream, group, back, 0, id, 'IDLE', stale_ms, 'JUSTID')
  else
    redis.call('XCLAIM', stream, group, back, 0, id, 'IDLE', stale_ms, 'RETRYCOUNT', deliveries[id] - 1, 'JUSTID')
  end
end
leave(stream, group, token)
return refuse(table.concat(letters))
