-- Keys that are taken until their message is settled, by the digest that the message has in its headers.
-- KEYS: unique, hash: digest -> 'w<number in its group>' while the message waits, 'w' while it is delayed, 'l<lease id>' while a
--         lease has it; that of a lease which was acked as a whole is free, so that an ack reads no messages
--       leases
-- include: group_in
local placed, placing = {}, {} -- digests of messages that this script puts in groups; those that are to be stored
local function digest_in(envelope) return stored_header(envelope, '"rmq-unique":"') end
local function digests_in(envelopes)
  local found = {}
  if only_grouped(envelopes) then return found end
  for i = 1, #envelopes do found[#found + 1] = digest_in(envelopes[i]) end
  return found
end
-- Says where the messages are that have these keys now; without `place`, their keys are free. Returns whether any has one.
local function set_unique(envelopes, place)
  local digests, pairs_of = digests_in(envelopes), {}
  for i = 1, place and #digests or 0 do
    local is_known = place == 'w' and placed[digests[i]]
    if not is_known then pairs_of[#pairs_of + 1], pairs_of[#pairs_of + 2] = digests[i], place end
  end
  for lo = 1, #pairs_of, 4000 do redis.call('HSET', unique, unpack(pairs_of, lo, math.min(#pairs_of, lo + 3999))) end
  for lo = 1, place and 0 or #digests, 4000 do
    redis.call('HDEL', unique, unpack(digests, lo, math.min(#digests, lo + 3999)))
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
