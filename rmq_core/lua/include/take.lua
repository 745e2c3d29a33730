-- Moves up to n messages from the claim end of a list to the end of a lease's, or to the publishing end of one like ready;
-- oldest first, at most 8 MiB of them.
-- Small batches first, so that large payloads are noticed early; more than 512 at once leave the processor's cache, and
-- are slower. Their number, and the batches as they were popped: to join them is Python's work, not the server's.
local function take(from, to, n, keep, publishing)
  local first = redis.call('LINDEX', from, -1) or ''
  local taken, bytes, batch, kept = 0, 0, math.max(1, math.min(128, math.floor(8388608 / (#first + 1)))), {}
  while taken < n and bytes < 8388608 do
    local got = redis.call('RPOP', from, math.min(n - taken, batch))
    if not got then break end
    if publishing then redis.call('LPUSH', to, unpack(got)) else redis.call('RPUSH', to, unpack(got)) end
    for i = 1, #got do bytes = bytes + #got[i] end
    if keep then kept[#kept + 1] = got end
    taken = taken + #got
    batch = math.min(4 * batch, 512, math.ceil((8388608 - bytes) * taken / bytes))
  end
  return taken, kept
end
