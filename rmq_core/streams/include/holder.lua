-- A consumer of a group. held() returns its pending entries, as {id, consumer, idle ms, deliveries}. leave() removes
-- the consumer if it holds nothing. since() assigns entries to it and sets their idle time to `idle` ms, without
-- counting a delivery.
local function held(key, group, consumer, most)
  return redis.call('XPENDING', key, group, '-', '+', most, consumer)
end
local function leave(key, group, consumer)
  if #held(key, group, consumer, 1) == 0 then redis.call('XGROUP', 'DELCONSUMER', key, group, consumer) end
end
local function since(key, group, consumer, ids, idle)
  local args = {unpack(ids)}
  args[#args + 1], args[#args + 2], args[#args + 3] = 'IDLE', idle, 'JUSTID'
  redis.call('XCLAIM', key, group, consumer, 0, unpack(args))
end
