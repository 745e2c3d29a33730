-- Counts the messages of publications: names that publishers give to messages which belong together. A lease keeps how many
-- unsettled messages of each it has, so that an ack reads none of them.
-- KEYS: publications, hash: name -> '<messages> <waiting> <leased> <dead> <removed> <publishers at work> <ms from which
--         these count as gone> <ms of its end, or 0>'
--       watchers, zset: who waits for an end -> ms, when that expires  finished, list that wakes them  waiters
-- ARGV: channel, of notifications
-- include: clock
-- include: group_in
local FIELDS, SILENT_MS = {'total', 'waiting', 'leased', 'dead', 'removed', 'publishers', 'until_ms', 'ended_ms'}, 600000
local counts = {}
local function publication_of(envelope) return stored_header(envelope, '"rmq-publication":"') end
-- Returns the counts of a publication; false without any, unless they are to be begun.
local function counts_of(name, begin)
  local c = counts[name]
  if c == nil then
    local stored = redis.call('HGET', publications, name)
    c = stored and {}
    if stored then
      for number in string.gmatch(stored, '%S+') do c[FIELDS[#c + 1]], c[#c + 1] = tonumber(number), true end
      local idle = c.publishers > 0 and c.waiting + c.leased == 0 and c.ended_ms == 0
      if idle and c.until_ms <= clock() then c.ended_ms = c.until_ms end -- nobody has stored it
    end
  end
  if not c and begin then
    c = {}
    for i = 1, #FIELDS do c[FIELDS[i]] = 0 end
  end
  counts[name] = c or false
  return c
end
-- Adds to counts of a publication: changes has the field and what to add to it. Returns whether it is known.
local function recount_in(name, n, changes)
  local c = counts_of(name, changes.total)
  if not c then return false end
  for field, sign in pairs(changes) do c[field] = math.max(0, c[field] + sign * n) end
  return true
end
local function add_each(found, envelopes)
  if only_grouped(envelopes) then return found end
  for i = 1, #envelopes do
    local name = publication_of(envelopes[i])
    if name then found[name] = (found[name] or 0) + 1 end
  end
  return found
end
-- Adds to the counts for each of these messages; returns how many there are of each publication that is known.
local function counted(envelopes, changes)
  local found = add_each({}, envelopes)
  for name, n in pairs(found) do
    if not recount_in(name, n, changes) then found[name] = nil end
  end
  return found
end
-- Stores the changed counts, and wakes the callers that wait for the end of a publication. A script calls it after all
-- changes.
local function keep_counts()
  local ended, now = false, nil
  for name, c in pairs(counts) do
    if c then
      now = now or clock()
      if c.waiting + c.leased > 0 or (c.publishers > 0 and c.until_ms > now) then c.ended_ms = 0
      elseif c.ended_ms == 0 then c.ended_ms, ended = now, true end
      local numbers = {}
      for i = 1, #FIELDS do numbers[i] = c[FIELDS[i]] end
      redis.call('HSET', publications, name, table.concat(numbers, ' '))
    end
  end
  counts = {}
  if not ended then return end
  local count = math.min(1000, redis.call('ZCOUNT', watchers, now, '+inf'))
  redis.call('DEL', watchers)
  for _ = 1, count do redis.call('RPUSH', finished, '1') end
  if count > 0 then redis.call('PEXPIRE', finished, 10000) end
  if redis.call('ZREM', waiters, '*') == 1 then redis.pcall('PUBLISH', channel, '1') end
end
