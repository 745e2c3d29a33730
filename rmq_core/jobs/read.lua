-- Reads unsettled jobs of a lease by index, at most 8 MiB of them; changes nothing.
-- KEYS: heads  lease
-- ARGV: lease_id  token  first:number, index  last:number, index
-- Reply: {'read' or 'lost', takeovers, next index to read, indexes, envelopes}.
-- include: jobs_entry
-- include: lease
local head = lease_of(heads, lease_id, token)
if not head then return {'lost', 0, 0, {}, {}} end
local at, bytes, places, found, batch = first, 0, {}, {}, 16
while at <= last and bytes < 8388608 do
  local got = redis.call('XRANGE', lease, (at + 1) .. '-0', (last + 1) .. '-0', 'COUNT', batch)
  if #got == 0 then at = last + 1 end
  for i = 1, #got do
    local envelope = envelope_of(got[i][2])
    places[#places + 1] = tonumber(string.match(got[i][1], '^%d+')) - 1
    found[#found + 1] = envelope
    bytes = bytes + #envelope
    at = places[#places] + 1
  end
  batch = math.max(1, math.min(4 * batch, 4000, math.ceil((8388608 - bytes) * #found / math.max(1, bytes))))
end
return {'read', head.takeovers, at, places, found}
