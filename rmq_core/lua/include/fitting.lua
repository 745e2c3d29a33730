-- How many messages to take next from an end of a list, 0 or -1, from which `taken` messages of `bytes` were taken before:
-- few at first, never more than 512, for more leave the processor's cache and are slower, and as many as come to 8 MiB if
-- all are as large as the first and the last of them and those before.
local function fitting(from, at, taken, bytes)
  local most = math.min(taken > 0 and 512 or 128, redis.call('LLEN', from))
  local first = redis.call('LINDEX', from, at) or ''
  local last = redis.call('LINDEX', from, at == 0 and most - 1 or -most) or ''
  local size = math.max(#first, #last, taken > 0 and bytes / taken or 0) + 1
  return math.max(1, math.min(most, math.floor((8388608 - bytes) / size)))
end
