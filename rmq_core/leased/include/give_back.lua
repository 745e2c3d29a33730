-- Gives the newest `k` messages of a lease back: to the claim end of ready, to their isolated group, to delayed
-- or to the dead letters. It takes them from the tail, so that the other messages keep their order and their
-- indexes. how: add (deliveries to count), group (number of the isolated group that they return to, or that they now
-- form; 0 for none); for a failure also entry (a line of history without its line end), max_deliveries, max_dead,
-- failed_cap, together (how many messages failed at once), shared (deliveries for which no single message is to blame),
-- waits (see nack_delays.lua; nil if all are ready at once) and now, in ms. The script has the key `waiters`, of which it
-- has read the type, and the argument `breaker` (see breaker.lua). size: how many messages the lease has;
-- settled: whether some were settled before. Sets how.soonest: when the first of them is ready again, 0 for now.
-- include: envelope
-- include: nack_delays
-- include: mark
-- include: halving
-- include: front
-- include: ended
-- include: trimmed
-- Counts a failed delivery. Returns the envelope, its isolated group or 0, whether the message becomes a dead letter,
-- and when it is ready again, nil for now. Only deliveries that the message is blamed for make it a dead letter, unless
-- max_deliveries is 1.
local function failed_once(envelope, how, known)
  local count, kept, history, body = parts_of(envelope)
  local mark = mark_in(history)
  local made = known[mark]
  if not made then
    made = blamed(mark, how)
    known[mark] = made
  end
  count = count + how.add
  local max = how.max_deliveries
  local dies = max == 1 or (how.together == 1 and max > 0 and count - made.shared >= max)
  local due = how.waits and due_after(how.waits, count, how.now) or nil
  return written(count, kept, history, made.line, body), made.group, dies, due
end
local function place(envelopes, keys, how, indexes)
  local back, apart, dead, ids, failed, known = {}, 0, {}, {}, {}, {}
  for i = 1, #envelopes do
    local envelope, group, dies, due, _ = envelopes[i], how.group, false, nil, nil
    if how.entry then
      envelope, group, dies, due = failed_once(envelope, how, known)
      if how.failed_cap > 0 then failed[#failed + 1] = envelope end
    else
      if how.add > 0 then _, envelope = recount(envelope, {add = how.add, entry = ''}) end
      if group > 0 then _, group = mark_of(envelope) end -- an earlier version mixed isolated messages with others
    end
    if dies then
      dead[#dead + 1] = envelope
      ids[#ids + 1] = message_id(envelope)
    else
      how.soonest = math.min(how.soonest or math.huge, due or 0)
      apart = apart + aside(keys, back, envelope, indexes[i], due, group, how.entry)
    end
  end
  if #dead > 0 then
    cut(keys.dead, redis.call('LPUSH', keys.dead, unpack(dead)), how.max_dead)
    if died then died(dead) end
    if breaker ~= '' then
-- include: breaker
      if trips(keys.dead, how.now) and redis.call('ZADD', waiters, 0, '=') == 1 then tripped = ' ' .. breaker end
    end
  end
  if #failed > 0 then
    redis.call('LPUSH', keys.failed, unpack(failed))
    redis.call('LTRIM', keys.failed, 0, how.failed_cap - 1)
  end
  to_front(keys, back)
  return #back + apart, ids
end
local function give_back(keys, k, how)
  local size, back, ids, bytes, moved = how.size, 0, {}, 0, 0
  if size == 1 and not how.settled then
    back, ids = place({redis.call('LINDEX', keys.lease, 1)}, keys, how, {0})
    size = 0
  else
-- include: fitting
    local function is_settled(bits, first, index)
      local byte = string.byte(bits, math.floor(index / 8) - first + 1)
      return byte ~= nil and math.floor(byte / 2 ^ (7 - index % 8)) % 2 == 1
    end
    -- If only one message would remain in the lease, it is given back too: otherwise, when the lease is taken over, that
    -- message would seem to have failed alone.
    while size > 0 and (moved < k and bytes < 8388608 or moved > 0 and size == 1) do
      local n = math.max(1, math.min(fitting(keys.lease, -1, moved, bytes), k - moved, size))
      local lo = size - n + 1
      local got = redis.call('LRANGE', keys.lease, lo, size)
      local first = math.floor((lo - 1) / 8)
      local bits = redis.call('GETRANGE', keys.settled, first, math.floor((size - 1) / 8))
      redis.call('LTRIM', keys.lease, 0, lo - 1)
      local open, indexes = {}, {}
      for i = n, 1, -1 do
        bytes = bytes + #got[i]
        local index = lo + i - 2
        if not is_settled(bits, first, index) then open[#open + 1], indexes[#indexes + 1] = got[i], index
        else redis.call('SETBIT', keys.settled, index, 0) end -- so that BITCOUNT counts only the messages left
      end
      local placed, dead = place(open, keys, how, indexes)
      back = back + placed
      for i = 1, #dead do ids[#ids + 1] = dead[i] end
      moved, size = moved + n, size - n
    end
  end
  if size == 0 then
    redis.call('ZREM', keys.leases, keys.id)
    redis.call('UNLINK', keys.lease, keys.settled)
    if ended then ended() end
  end
  return back, ids, size
end
local function check_types(keys)
  if not died then redis.call('LLEN', keys.ready) end -- another layout has checked its own keys
  redis.call('LLEN', keys.dead)
  redis.call('LLEN', keys.failed)
  redis.call('ZCARD', keys.delayed)
  redis.call('ZCARD', keys.leases)
  redis.call('STRLEN', keys.settled)
end
