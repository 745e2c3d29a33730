-- Makes the next messages of a commit ready or delayed, except those whose deduplication key is taken.
-- KEYS: slot  leases  staged, record of the commit  stage, its first one  ready  delayed  waiters  wake  timer
--       markers..., deduplication keys of those of these messages that have one, in order
-- ARGV: seq  slot_ttl_ms  commit, its member of `leases`  element, the first of the record
--       channel, of notifications  peace_ms:number, how long until other clients continue the move  nonce, of this call
--       window_ms, of deduplication
--       count, messages in the stage, '' when it is plain  most:number, how many to move
-- Reply: 'moved <accepted> <duplicates> <messages left in the stage> [<ids of messages that were replaced>]', 'elsewhere'
--   when another client moved them, or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: envelope
-- include: ready
-- include: notify
-- include: timer
-- include: set_delayed
-- include: fitting
-- include: restock
-- include: arrived
-- include: distinct
local first, plain = redis.call('LINDEX', staged, 0), count == ''
if not first then redis.call('ZREM', leases, commit) end
local held = redis.call('LLEN', stage)
if first ~= element or not (plain or held == tonumber(count)) then return refuse('elsewhere') end
local now, seen = clock(), awaited(waiters, wake, timer)
size_of() -- refuses a wrong type before anything is written
redis.call('ZCARD', delayed)
redis.call('ZCARD', leases)
local taken, met = {}, {}
if #markers > 0 then
  taken = redis.call('MGET', unpack(markers))
  local holders = {}
  for i = 1, #markers do if not taken[i] then holders[#holders + 1] = markers[i] end end
  if #holders > 0 and redis.call('EXISTS', unpack(holders)) > 0 then -- MGET ignores a wrong type
    return redis.error_reply('WRONGTYPE a deduplication key holds another kind of value')
  end
end
redis.call('PERSIST', stage) -- Redis allows this write at maxmemory and then later ones: committed messages only move
local accepted, moved, bytes, at = 0, 0, 0, 0
local due, added, replaced = nil, false, {}
if plain and held > 0 then
  local refused
  moved, refused, replaced = restock(stage, held, most, element)
  accepted, added, replaced = moved - (refused or 0), true, replaced or {}
end
while not plain and moved < most and bytes < 8388608 do
  local got = redis.call('LPOP', stage, math.min(most - moved, fitting(stage, 0, moved, bytes)))
  if not got then break end
  local undelayed = {}
  for i = 1, #got do
    local entry, delay_ms, fresh = got[i], 0, true
    bytes = bytes + #entry
    local stop = history_end(entry)
    local wait_ms, digest, body = string.match(entry, '^\1(%d+) (%S+) (.*)$', (stop or 0) + 1)
    if wait_ms then
      entry, delay_ms = string.sub(entry, 1, stop) .. body, tonumber(wait_ms)
      if digest ~= '-' then
        at = at + 1
        local key = markers[at]
        fresh = not met[key] and not taken[at]
        met[key] = true
        if fresh then redis.call('SET', key, nonce, 'PX', window_ms) end
      end
    end
    if fresh and distinct then fresh = #distinct({entry}, delay_ms > 0) == 1 end
    if fresh then accepted = accepted + 1 end
    if fresh and delay_ms > 0 then
      set_delayed(delayed, now + delay_ms, entry)
      due = math.min(due or now + delay_ms, now + delay_ms)
    elseif fresh and in_groups then -- at once, for the next one may have the same key
      added = append({entry}) or added
    elseif fresh then
      undelayed[#undelayed + 1] = entry
    end
    if fresh and arrived then arrived({entry}) end
    if replace then
      local id = replace()[1]
      if id then accepted, replaced[#replaced + 1] = accepted + 1, id end
    end
  end
  if #undelayed > 0 then added = append(undelayed) end
  moved = moved + #got
end
if moved == held then redis.call('LPOP', staged) end
if redis.call('LLEN', staged) == 0 then redis.call('ZREM', leases, commit)
else redis.call('ZADD', leases, 'XX', 'GT', now + peace_ms, commit) end
local early = seen and due and sooner(timer, due)
if seen and (added or early) then notify(waiters, wake, channel, now, seen, early) end
local ids = #replaced > 0 and ' ' .. table.concat(replaced, ' ') or ''
return remember('moved ' .. accepted .. ' ' .. moved - accepted .. ' ' .. held - moved .. ids)
