-- Reads messages of a lease by index, at most 8 MiB of them or one larger message; changes nothing.
-- KEYS: lease  settled
-- ARGV: token, or '' to read without holding the lease  first:number, index  last:number, index
-- Reply: {'read' or 'lost', takeovers, first byte of the bits, bits of the settled bitmap, envelopes}.
-- include: head
local head = head_of(lease)
if head and token ~= '' and head.token ~= token then head = nil end
if not head then return {'lost', 0, 0, '', {}} end
local lo, byte = first, math.floor(first / 8)
local bits = redis.call('GETRANGE', settled, byte, math.floor(last / 8))
local found, bytes, next_one = {}, 0, redis.call('LINDEX', lease, lo + 1) or ''
local batch = math.max(1, math.min(128, math.floor(8388608 / (#next_one + 1))))
while lo <= last and bytes < 8388608 do
  local got = redis.call('LRANGE', lease, lo + 1, math.min(last, lo + batch - 1) + 1)
  if #got == 0 then break end
  for i = 1, #got do
    bytes = bytes + #got[i]
    if bytes > 8388608 and #found > 0 then break end -- the next reply has the larger ones that follow
    found[#found + 1] = got[i]
  end
  lo = lo + #got
  -- Small messages do not predict the size of those after them: read few at once, or the script holds too much data.
  batch = math.max(1, math.min(4 * batch, 256, math.ceil((8388608 - bytes) * #found / bytes)))
end
return {'read', head.takeovers, byte, bits, found}
