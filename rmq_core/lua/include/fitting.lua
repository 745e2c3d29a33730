-- How many messages to pop next from the right end of a list, of which `taken` messages of `bytes` were popped before: few
-- at first, never more than 512, for more leave the processor's cache and are slower, and as many as come to 8 MiB if all
-- are as large as the first and the last of them and those before.
local function fitting(from, taken, bytes)
  local most = math.min(taken > 0 and 512 or 128, redis.call('LLEN', from))
  local first, last = redis.call('LINDEX', from, -1) or '', redis.call('LINDEX', from, -most) or ''
  local size = math.max(#first, #last, taken > 0 and bytes / taken or 0) + 1
  return math.max(1, math.min(most, math.floor((8388608 - bytes) / size)))
end
