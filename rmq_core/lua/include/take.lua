-- Moves up to n messages from the claim end of a list to the end of a lease's, or to the publishing end of one like ready;
-- oldest first, about 8 MiB of them at most. Their number, and the batches as they were popped: to join them is Python's
-- work, not the server's.
local function take(from, to, n, keep, publishing)
  local taken, bytes, kept = 0, 0, {}
  while taken < n and bytes < 8388608 do
    local got = redis.call('RPOP', from, math.min(n - taken, fitting(from, taken, bytes)))
    if not got then break end
    if publishing then redis.call('LPUSH', to, unpack(got)) else redis.call('RPUSH', to, unpack(got)) end
    for i = 1, #got do bytes = bytes + #got[i] end
    if keep then kept[#kept + 1] = got end
    taken = taken + #got
  end
  return taken, kept
end
