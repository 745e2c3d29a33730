-- Adds what a client counted to the current minute, the current hour and the totals of a queue, and adds marks.
-- KEYS: history  sent, the number of the client's last flush; it expires
--       ready  delayed  journal  paused?, of a stream
-- ARGV: number, of this flush  sums, items such as 'p+3 wx^120', or ''
--       kind, of `ready`: 'list' with the oldest message at the left, or 'stream'
--       marks..., lines without their time; further lines of a mark are entries for the journal, if there is one
-- Reply: 'counted' or 'counted before'.
-- include: clock
-- include: next_isolated
-- include: group
-- include: jobs_entry
-- include: oldest
if redis.call('GET', sent) == number then return 'counted before' end
local now = clock()
local minute, hour = math.floor(now / 60000), math.floor(now / 3600000)
local places = {'m' .. minute % 1440, 'h' .. hour % 720, 'totals', 'marks'}
local kept = redis.call('HMGET', history, unpack(places))
-- A new item is appended, so items of a later version stay. '+' adds, '^' keeps the largest, '=' takes the newest.
local function merged(number_of, before, added)
  local order, values = {}, {}
  for _, text in ipairs({before, added}) do
    for name, how, value in string.gmatch(text, '(%l+%d*)([+^=])(%d+)') do
      local item, old = name .. how, values[name .. how]
      if not old then order[#order + 1] = item end
      value = tonumber(value)
      if old and how == '+' then value = old + value elseif old and how == '^' then value = math.max(old, value) end
      values[item] = value
    end
  end
  local words = {string.format('%.0f', number_of)}
  for i = 1, #order do words[i + 1] = order[i] .. string.format('%.0f', values[order[i]]) end
  return table.concat(words, ' ')
end
local function within(text, number_of)
  return text and string.find(text, number_of .. ' ', 1, true) == 1 and text or ''
end
-- Returns whether a mark is about single messages: its text is 'message <id>' or '<number> messages', and not free.
local function of_messages(line)
  local kind, text = string.match(line, '^%d+\t([^\t]*)\t[^\t]*\t(.*)\n')
  return text and kind ~= 'mark' and (string.find(text, '^message ') or string.find(text, '^%d+ messages?$'))
end
-- Returns the lines but for the oldest of them, or of those that meet a condition, that are more than `most`.
local function newest(lines, most, met)
  local counted, words = 0, {}
  for line in string.gmatch(lines, '[^\n]*\n') do words[#words + 1] = line end
  for i = #words, 1, -1 do
    if not met or met(words[i]) then
      counted = counted + 1
      if counted > most then words[i] = '' end
    end
  end
  return table.concat(words)
end
-- Returns how many messages are ready, and when the oldest of them was enqueued, '' if that is not known.
local function looked()
  if kind == 'list' then
    local isolated = isolated_in(delayed)
    return ready_in(ready) + isolated, oldest(ready, delayed, isolated)
  end
  local found = group_of(ready, 'jobs')
  local last = redis.call('GET', paused) or (found and found['last-delivered-id']) or '0-0'
  local first = redis.call('XRANGE', ready, '(' .. last, '+', 'COUNT', 1)[1]
  return redis.call('XLEN', ready) - (found and found.pending or 0), first and enqueued(envelope_of(first[2]) or '') or ''
end
local waiting, first = looked()
local age = first ~= '' and string.format('%.0f', math.max(0, now - first)) or '0'
local seen = ' g=' .. waiting .. ' g^' .. waiting .. ' y=' .. age .. ' y^' .. age
local totals = kept[3] or ''
local begun = string.match(totals, '^%d+') or now
local claims = string.find(sums, 'c+', 1, true) and string.format(' c=%.0f', now % 60000) or ''
local written = {
  places[1], merged(minute, within(kept[1], minute), sums .. seen .. claims),
  places[2], merged(hour, within(kept[2], hour), sums .. seen),
  places[3], merged(begun, totals, (string.gsub(sums, '%l+%d*%^%d+', ''))),
}
if #marks > 0 then
  local lines = kept[4] or ''
  for i = 1, #marks do
    local line, entries = string.match(marks[i], '^([^\n]*)(.*)$')
    lines = lines .. now .. '\t' .. line .. '\n'
    for entry in string.gmatch(entries, '[^\n]+') do
      redis.call('XADD', journal, 'NOMKSTREAM', '*', unpack(cjson.decode(entry)))
    end
  end
  written[7], written[8] = 'marks', newest(newest(lines, 25, of_messages), 50)
end
redis.call('HSET', history, unpack(written))
redis.call('EXPIRE', history, 2764800)
redis.call('SET', sent, number, 'PX', 600000)
return 'counted'
