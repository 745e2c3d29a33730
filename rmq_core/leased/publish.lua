-- Adds a chunk of messages to ready or delayed, except those whose deduplication key is taken; adds all others or none.
-- A chained chunk is sent before the reply to the previous chunk; it adds nothing unless that chunk was accepted.
-- KEYS: slot  ready  delayed  waiters  wake  timer
--       markers..., deduplication keys, one per message or none; if chained, also the slot of the previous chunk
-- ARGV: seq  slot_ttl_ms  channel, of notifications  delay_ms  max_ready, or 0
--       drop_oldest, '1' to drop the oldest when full  nonce, of this call  window_ms, of deduplication, 0 for none
--       count, of the messages  stamp_ms, server time that the publisher wrote into their stamps, 0 for none
--       messages..., if chained, also the seq of the previous chunk
-- Reply: 'accepted <dropped> [<one digit per message: 1 accepted, 0 duplicate, 2 accepted in the place of another>]
--   [@<now ms>, if count > 1 or any is 2] [<ids of the messages that were replaced>] [!, see in_map]',
--   'full <now ms>', 'unchained', 'moved' (to other shards; see in_map) or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: in_map
if moved then return refuse('moved') end
local now = clock()
-- include: append_one
-- Fast path: one message without deduplication and delay, room for it, and no waiters. It returns before the includes
-- below are defined and before numbers are converted, because it needs none.
if #messages == 1 and #markers == 0 and delay_ms == '0' and stamp_ms == '0' and redis.call('ZCARD', waiters) == 0 and
    (max_ready == '0' or has_room(tonumber(max_ready))) and append_one('0 ' .. now .. ' 0 ' .. messages[1]) then
  return remember('accepted 0')
end
-- include: ready
-- include: arrived
-- include: distinct
-- include: stamp
-- include: notify
delay_ms, max_ready, count = tonumber(delay_ms), tonumber(max_ready), tonumber(count)
if #messages > count then
  local before, last = redis.call('GET', markers[#markers]) or '', messages[#messages]
  if string.sub(before, 1, #last + 9) ~= last .. ' accepted' then return 'unchained' end
  markers[#markers], messages[#messages] = nil, nil
end
local seen = awaited(waiters, wake, timer)
-- Without deduplication, `markers` is empty, and so is `unmarked`.
local fresh, verdicts, unmarked = stamped(stamp_ms, now, messages), nil, markers
local keys = #markers
if keys > 0 then
  local given, met = fresh, {}
  verdicts, fresh, unmarked = {}, {}, {}
  local taken = keys == 1 and {redis.call('GET', markers[1])} or redis.call('MGET', unpack(markers))
  for i = 1, count do
    local key = markers[i]
    verdicts[i] = '0'
    if not met[key] and (not taken[i] or taken[i] == nonce) then verdicts[i] = '1' end
    if not met[key] and not taken[i] then
      unmarked[#unmarked + 1] = key
      fresh[#fresh + 1] = given[i]
    end
    if keys > 1 then met[key] = true end -- a single key has no duplicate in the chunk
  end
end
if keys > 1 and #unmarked > 0 and redis.call('EXISTS', unpack(unmarked)) > 0 then -- MGET ignores a wrong type
  return redis.error_reply('WRONGTYPE a deduplication key holds another kind of value')
end
if distinct then
  local apart
  fresh, apart = distinct(fresh, delay_ms > 0)
  verdicts = apart or verdicts
end
local dropped, isolated = 0, 0
if max_ready > 0 and #fresh > 0 then
  local room = max_ready - size_of() - redis.call('ZCARD', delayed)
  if room < #fresh then
    isolated = redis.call('ZCOUNT', delayed, '-inf', '(0') -- these are ready as well, see next_isolated.lua
    if drop_oldest ~= '1' or in_groups or #fresh - room > size_of() + isolated then return refuse('full ' .. now) end
    dropped = #fresh - room
  end
end
if #fresh > 0 and delay_ms > 0 then
-- include: timer
-- include: set_delayed
  local due = now + delay_ms
  for i = 1, #fresh do set_delayed(delayed, due, fresh[i]) end
  if seen and sooner(timer, due) then notify(waiters, wake, channel, now, seen, true) end
elseif #fresh > 0 then
  local added = append(fresh)
  if seen and added then notify(waiters, wake, channel, now, seen) end
end
if dropped > 0 then -- after the messages are stored: a full server refuses that first, and then nothing is dropped
  local apart = math.min(dropped, isolated)
  if apart > 0 then redis.call('ZREMRANGEBYRANK', delayed, isolated - apart, isolated - 1) end
  if dropped > apart then redis.call('LPOP', ready, dropped - apart) end
end
if arrived then arrived(fresh) end
for i = 1, #unmarked do redis.call('SET', unmarked[i], nonce, 'PX', window_ms) end
local stamp, replaced = count > 1 and ' @' .. now or '', replace and replace()
if replaced and #replaced > 0 then stamp = ' @' .. now .. ' ' .. table.concat(replaced, ' ') end
if called and seen then stamp = stamp .. called() end
return remember('accepted ' .. dropped .. (verdicts and ' ' .. table.concat(verdicts) or '') .. stamp)
