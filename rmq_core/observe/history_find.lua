-- Looks for a message in a part of a list or sorted set, at most about 8 MiB of it; changes nothing.
-- KEYS: key
-- ARGV: id, of the message  kind, 'list' or 'zset'  first:number, index of the first entry  last:number
-- Reply: {index behind the last entry that was read, total, envelope or '', its score or ''}.
-- include: envelope
-- include: entries
local sorted = kind == 'zset'
local total = sorted and redis.call('ZCARD', key) or count_of(key)
local at, bytes, stop = first, 0, math.min(last, total - 1)
while at <= stop and bytes <= 8388608 do
  local upto = math.min(at + 99, stop)
  local found = sorted and redis.call('ZRANGE', key, at, upto) or entries(key, at, upto)
  for i = 1, #found do
    bytes = bytes + #found[i]
    if string.find(found[i], id, 1, true) and message_id(found[i]) == id then
      return {at + i, total, found[i], sorted and redis.call('ZSCORE', key, found[i]) or ''}
    end
  end
  at = upto + 1
end
return {at, total, '', ''}
