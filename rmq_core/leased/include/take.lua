-- Moves up to n messages from the left end of a list to the right end of another, oldest first, about 8 MiB of them at
-- most. Returns their number and the batches as they were popped, which the Python side joins to spare the server.
-- include: fitting
local function take(from, to, n, keep)
  local taken, bytes, kept = 0, 0, {}
  while taken < n and bytes < 8388608 do
    local got = redis.call('LPOP', from, math.min(n - taken, fitting(from, 0, taken, bytes)))
    if not got then break end
    redis.call('RPUSH', to, unpack(got))
    for i = 1, #got do bytes = bytes + #got[i] end
    if keep then kept[#kept + 1] = got end
    taken = taken + #got
  end
  return taken, kept
end
