-- Gives the newest `k` messages of a lease back: to the claim end of ready, to delayed (how.due) or, past
-- how.max_deliveries, to the dead letters. From the tail, so that the order of the rest and their indexes stay.
-- how: add (deliveries to count), entry (a line of history, or ''), due, max_deliveries, max_dead, failed_log.
local function is_settled(bits, first, index)
  local byte = string.byte(bits, math.floor(index / 8) - first + 1)
  return byte ~= nil and math.floor(byte / 2 ^ (7 - index % 8)) % 2 == 1
end
local function place(envelopes, keys, how)
  local back, dead, ids, failed = {}, {}, {}, {}
  for i = 1, #envelopes do
    local count, envelope = 0, envelopes[i]
    if how.add > 0 then count, envelope = recount(envelope, how) end
    if how.entry ~= '' then failed[#failed + 1] = envelope end
    if how.entry ~= '' and how.max_deliveries > 0 and count >= how.max_deliveries then
      dead[#dead + 1] = envelope
      ids[#ids + 1] = message_id(envelope)
    else
      back[#back + 1] = envelope
    end
  end
  if #dead > 0 then
    redis.call('LPUSH', keys.dead, unpack(dead))
    redis.call('LTRIM', keys.dead, 0, how.max_dead - 1)
  end
  if #failed > 0 and how.failed_log > 0 then
    redis.call('LPUSH', keys.failed, unpack(failed))
    redis.call('LTRIM', keys.failed, 0, how.failed_log - 1)
  end
  if #back > 0 and how.due then
    for i = 1, #back do set_delayed(keys.delayed, how.due, back[i]) end
  elseif #back > 0 then
    redis.call('LPUSH', keys.ready, unpack(back))
  end
  return #back, ids
end
local function give_back(keys, k, how)
  local size = redis.call('LLEN', keys.lease) - 1
  local back, ids, bytes, moved = 0, {}, 0, 0
  while size > 0 and moved < k and bytes < 8388608 do
    local n = math.min(fitting(keys.lease, -1, moved, bytes), k - moved, size)
    local lo = size - n + 1
    local got = redis.call('LRANGE', keys.lease, lo, size)
    local first = math.floor((lo - 1) / 8)
    local bits = redis.call('GETRANGE', keys.settled, first, math.floor((size - 1) / 8))
    redis.call('LTRIM', keys.lease, 0, lo - 1)
    local open = {}
    for i = n, 1, -1 do
      bytes = bytes + #got[i]
      local index = lo + i - 2
      if not is_settled(bits, first, index) then open[#open + 1] = got[i]
      else redis.call('SETBIT', keys.settled, index, 0) end -- what counts the bits counts those of the messages left
    end
    local placed, dead = place(open, keys, how)
    back = back + placed
    for i = 1, #dead do ids[#ids + 1] = dead[i] end
    moved, size = moved + n, size - n
  end
  if size == 0 then
    redis.call('ZREM', keys.leases, keys.id)
    redis.call('UNLINK', keys.lease, keys.settled)
  end
  return back, ids, size
end
local function check_types(keys)
  redis.call('LLEN', keys.ready)
  redis.call('LLEN', keys.dead)
  redis.call('LLEN', keys.failed)
  redis.call('ZCARD', keys.delayed)
  redis.call('ZCARD', keys.leases)
  redis.call('STRLEN', keys.settled)
end
