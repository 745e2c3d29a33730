-- Takes over jobs whose worker is silent, on servers without XREADGROUP CLAIM.
-- KEYS: 1 ready
-- ARGV: 1 group  2 consumer  3 lease ms  4 where to go on  5 how many at most
-- Reply: {where to go on, entries {id, fields, 0, deliveries before}}.
local reply = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5])
local found = {}
for _, entry in ipairs(reply[2]) do
  if entry and entry[2] then
    local before = redis.call('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)[1]
    found[#found + 1] = {entry[1], entry[2], 0, before[4] - 1}
  end
end
return {reply[1], found}
