-- Adds a chunk of imported entries and stores the progress of the import; does both or neither.
-- KEYS: slot  progress  stream
-- ARGV: seq  slot_ttl_ms  before, the progress so far, '' for none  after, the progress with this chunk  keep_ms
--       entries..., of each its id, '*' for a new one, and its data; the ids ascend
-- Reply: 'imported', 'elsewhere' if another import stored other progress, 'newer <last id of the stream>' or 'superseded'.
-- include: replay
-- include: imported
-- include: stream_ids
local earlier = replay()
if earlier then return earlier end
local refusal = at_start(progress, before)
if refusal then return refusal end
if #entries > 0 and entries[1] ~= '*' then -- a server refuses an id that is not above the one before
  local info, highest = redis.call('EXISTS', stream) == 1 and redis.call('XINFO', 'STREAM', stream) or {}, '0-0'
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then highest = info[i + 1] end
  end
  for i = 1, #entries, 2 do
    if not precedes(highest, entries[i]) then return refuse('newer ' .. highest) end
    highest = entries[i]
  end
end
for i = 1, #entries, 2 do redis.call('XADD', stream, entries[i], 'data', entries[i + 1]) end
return at_end(progress, after, keep_ms)
