-- Returns when claims may get the next message of each of these groups; changes nothing.
-- KEYS: ready
-- ARGV: names..., of groups
-- Reply: for each group a time in ms, 0 for now, or 'inf' when a lease has to end first; nothing where there are no groups.
-- include: ready
size_of() -- refuses a queue of another layout
if not in_groups then return {} end
read_records(names)
local now, token, found = clock(), queue_rate and token_at(queue_rate, '') or 0, {}
for i = 1, #names do
  local bucket, rest = group_rate and bucket_of(names[i]), redis.call('ZSCORE', resting, names[i])
  local at = math.max(rest and tonumber(rest) or 0, token, bucket and token_at(group_rate, bucket) or 0)
  found[i] = rest == 'inf' and rest or string.format('%.0f', at > now and at or 0)
end
return found
