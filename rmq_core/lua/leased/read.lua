-- Reads messages of a lease by index, at most 8 MiB of them or a larger one; changes nothing.
-- KEYS: 1 lease  2 settled
-- ARGV: 1 token, or '' for a look by anybody  2 first index  3 last index
-- Reply: {'read' or 'lost', takeovers, first byte of the bits, bits of the settled bitmap, envelopes}.
-- include: head
local head = head_of(KEYS[1])
if head and ARGV[1] ~= '' and head.token ~= ARGV[1] then head = nil end
if not head then return {'lost', 0, 0, '', {}} end
local lo, hi = tonumber(ARGV[2]), tonumber(ARGV[3])
local first = math.floor(lo / 8)
local bits = redis.call('GETRANGE', KEYS[2], first, math.floor(hi / 8))
local found, bytes, next_one = {}, 0, redis.call('LINDEX', KEYS[1], lo + 1) or ''
local batch = math.max(1, math.min(128, math.floor(8388608 / (#next_one + 1))))
while lo <= hi and bytes < 8388608 do
  local got = redis.call('LRANGE', KEYS[1], lo + 1, math.min(hi, lo + batch - 1) + 1)
  if #got == 0 then break end
  for i = 1, #got do
    bytes = bytes + #got[i]
    if bytes > 8388608 and #found > 0 then break end -- larger ones follow, which the next reply has
    found[#found + 1] = got[i]
  end
  lo = lo + #got
  -- Small ones say nothing of those behind them: not too many at once, or the script itself would be too large.
  batch = math.max(1, math.min(4 * batch, 256, math.ceil((8388608 - bytes) * #found / bytes)))
end
return {'read', head.takeovers, first, bits, found}
