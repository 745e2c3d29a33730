-- Keys that are taken until their message is settled, by the digest that the message has in its headers.
-- KEYS: unique, hash: digest -> 'w' while the message waits, 'l<lease id>' while a lease has it; that of a lease which was
--         acked as a whole is free, so that an ack reads no messages
--       leases
-- include: group_in
local function digest_in(envelope) return stored_header(envelope, '"rmq-unique":"') end
local function digests_in(envelopes)
  local found = {}
  for i = 1, #envelopes do found[#found + 1] = digest_in(envelopes[i]) end
  return found
end
-- Says where the messages are that have these keys now; without `place`, their keys are free. Returns whether any has one.
local function set_unique(envelopes, place)
  local digests, pairs_of = digests_in(envelopes), {}
  for i = 1, #digests do pairs_of[2 * i - 1], pairs_of[2 * i] = digests[i], place end
  for lo = 1, #digests, 2000 do
    local hi = math.min(#digests, lo + 1999)
    if place then redis.call('HSET', unique, unpack(pairs_of, 2 * lo - 1, 2 * hi))
    else redis.call('HDEL', unique, unpack(digests, lo, hi)) end
  end
  return #digests > 0
end
local function is_free(place)
  return not place or string.byte(place) == 108 and not redis.call('ZSCORE', leases, string.sub(place, 2))
end
-- Drops some of the keys that acked leases have left behind.
local function drop_some()
  local some, gone = redis.call('HRANDFIELD', unique, 4, 'WITHVALUES'), {}
  for i = 1, #some, 2 do
    if is_free(some[i + 1]) then gone[#gone + 1] = some[i] end
  end
  if #gone > 0 then redis.call('HDEL', unique, unpack(gone)) end
end
