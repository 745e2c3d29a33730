-- A worker's heartbeat: its jobs are not silent. Those that are somebody else's by now stay so.
-- KEYS: 1 ready
-- ARGV: 1 group  2 consumer  3... entries
-- Reply: the entries that are the worker's no longer.
local lost = {}
for i = 3, #ARGV do
  if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2]) == 0 then
    lost[#lost + 1] = ARGV[i]
  else
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
  end
end
return lost
