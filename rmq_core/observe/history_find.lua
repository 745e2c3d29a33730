-- Looks for a message in a part of a list or sorted set, at most about 8 MiB of it; changes nothing.
-- KEYS: key
-- ARGV: id, of the message  kind, 'list' or 'zset'  first:number, index of the first entry  last:number
-- Reply: {index behind the last entry that was read, total, envelope or '', its score or ''}.
-- include: envelope
local sorted = kind == 'zset'
local total = sorted and redis.call('ZCARD', key) or redis.call('LLEN', key)
local at, bytes, stop = first, 0, math.min(last, total - 1)
while at <= stop and bytes <= 8388608 do
  local upto = math.min(at + 99, stop)
  local entries = sorted and redis.call('ZRANGE', key, at, upto) or redis.call('LRANGE', key, at, upto)
  for i = 1, #entries do
    bytes = bytes + #entries[i]
    if string.find(entries[i], id, 1, true) and message_id(entries[i]) == id then
      return {at + i, total, entries[i], sorted and redis.call('ZSCORE', key, entries[i]) or ''}
    end
  end
  at = upto + 1
end
return {at, total, '', ''}
