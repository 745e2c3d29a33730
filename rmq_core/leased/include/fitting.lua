-- Returns how many messages to take next from one end of a list (0 or -1), after `taken` messages of `bytes` in all.
-- It is a small number at first and at most 512, because more exceed the processor's cache and are slower. The total
-- stays within 8 MiB if no message is larger than the largest of: the first, the last, the average of those taken
-- before.
local function fitting(from, at, taken, bytes)
  local most = math.min(taken > 0 and 512 or 128, redis.call('LLEN', from))
  local first = redis.call('LINDEX', from, at) or ''
  local last = redis.call('LINDEX', from, at == 0 and most - 1 or -most) or ''
  local size = math.max(#first, #last, taken > 0 and bytes / taken or 0) + 1
  return math.max(1, math.min(most, math.floor((8388608 - bytes) / size)))
end
