-- Adds a chunk of imported messages in one state and stores the progress of the import; does both or neither.
-- KEYS: slot  progress  ready  delayed  dead  waiters  wake  timer  fence
-- ARGV: seq  slot_ttl_ms  before, the progress so far, '' for none  after, the progress with this chunk  keep_ms
--       state, ready, delayed, isolated or dead  channel, of notifications  max_ready:number, or 0
--       max_dead:number, cap of the dead letters  least_fence:number
--       messages..., oldest first; before each delayed or isolated one its score
-- Reply: 'imported', 'elsewhere' if another import stored other progress, 'full <setting>' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: imported
-- include: ready
-- include: arrived
-- include: notify
-- include: timer
-- include: set_delayed
local refusal = at_start(progress, before)
if refusal then return refusal end
local now, seen, waits = clock(), awaited(waiters, wake, timer), state ~= 'dead'
local count = (state == 'ready' or state == 'dead') and #messages or #messages / 2
local dead_now, size = redis.call('LLEN', dead), size_of() + redis.call('ZCARD', delayed)
if state == 'dead' and dead_now + count > max_dead then return refuse('full max_dead') end
if waits and max_ready > 0 and count > 0 and size + count > max_ready then return refuse('full max_ready') end
redis.call('STRLEN', fence) -- refuses a wrong type before anything is written
local due
if count == 0 then -- only the progress changes
elseif state == 'ready' then
  append(messages)
  if arrived then arrived(messages) end
elseif state == 'dead' then redis.call('LPUSH', dead, unpack(messages))
else
  for i = 1, #messages, 2 do
    local score = tonumber(messages[i])
    set_delayed(delayed, score, messages[i + 1])
    due = math.min(due or score, score)
  end
  if arrived then
    local added = {}
    for i = 2, #messages, 2 do added[#added + 1] = messages[i] end
    arrived(added)
  end
  local present = tonumber(redis.call('GET', fence) or 0)
  if present < least_fence then redis.call('SET', fence, string.format('%.0f', least_fence)) end
end
if seen and count > 0 and waits and (state ~= 'delayed' or sooner(timer, due)) then
  notify(waiters, wake, channel, now, seen)
end
return at_end(progress, after, keep_ms)
