-- Creates the consumer group and detects the server's features: with IDMP (Redis 8.6) it remembers ids for the given
-- time. Setting the same values again keeps the remembered ids.
-- KEYS: ready
-- ARGV: group  remembered_s, for which ids of producers are remembered  remembered, how many of each
-- Reply: 'native', 'plain', or 'unable <command>'.
redis.call('PERSIST', ready) -- Redis allows this write at maxmemory and then every later one, so consumers can start
local made = redis.pcall('XGROUP', 'CREATE', ready, group, '0', 'MKSTREAM')
if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then return made end
local set = redis.pcall('XCFGSET', ready, 'IDMP-DURATION', remembered_s, 'IDMP-MAXSIZE', remembered)
if not set.err then return 'native' end
if string.find(set.err, 'NOPERM', 1, true) or string.find(set.err, 'OOM', 1, true) then return set end
local stolen = redis.pcall('XAUTOCLAIM', ready, group, '~probe', '86400000', '0-0', 'COUNT', '1')
if not stolen.err then
  redis.call('XGROUP', 'DELCONSUMER', ready, group, '~probe') -- some servers create it during the probe
  return 'plain'
end
if string.find(string.lower(stolen.err), 'unknown', 1, true) then return 'unable XAUTOCLAIM' end
return stolen
