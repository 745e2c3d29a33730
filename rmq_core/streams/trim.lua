-- Deletes the oldest entries that have been delivered to and acknowledged by every group, a thousand at a time.
-- KEYS: slot  stream
-- ARGV: seq  slot_ttl_ms
-- Reply: 'trimmed <number>' or 'superseded'.
-- include: replay
-- include: stream_ids
local earlier = replay()
if earlier then return earlier end
local done
local groups = redis.call('EXISTS', stream) == 1 and redis.call('XINFO', 'GROUPS', stream) or {}
for _, flat in ipairs(groups) do
  local group = {}
  for i = 1, #flat, 2 do group[flat[i]] = flat[i + 1] end
  local reach = {id = group['last-delivered-id'], open = false}
  if group.pending > 0 then reach = {id = redis.call('XPENDING', stream, group.name)[2], open = true} end
  if not done or precedes(reach.id, done.id) or (reach.id == done.id and reach.open) then done = reach end
end
local old = done and redis.call('XRANGE', stream, '-', (done.open and '(' or '') .. done.id, 'COUNT', 1000) or {}
local trimmed = 0
if #old > 0 then
  local ids = {}
  for i = 1, #old do ids[i] = old[i][1] end
  trimmed = redis.call('XDEL', stream, unpack(ids))
end
return refuse('trimmed ' .. trimmed)
